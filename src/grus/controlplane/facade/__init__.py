"""Operations that users and administrators may call, with their permission checks."""
