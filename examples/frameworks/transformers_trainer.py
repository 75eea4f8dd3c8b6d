"""Train a small GPT-2 with the Trainer of Transformers: model from its configuration, generated data."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

TOKENS = 16


class Sequences(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = (torch.arange(8) + index) % TOKENS
        return {"input_ids": tokens, "labels": tokens}


config = GPT2Config(
    vocab_size=TOKENS, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
)
arguments = TrainingArguments(
    output_dir="out/transformers",
    per_device_train_batch_size=4,
    num_train_epochs=1,
    logging_steps=1,
    use_cpu=not torch.cuda.is_available(),
    disable_tqdm=True,
    report_to=[],
)
trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Sequences())
done = trainer.train()
trainer.save_model()
print(f"mode: {arguments.parallel_mode.value}")
print(f"process {arguments.process_index} of {arguments.world_size}: {done.global_step} steps")
trainer.accelerator.end_training()  # leaves the process group, as PyTorch asks of every rank
