"""Rules for one job: lifecycle, worker groups, user actions, dependencies. Pure."""
