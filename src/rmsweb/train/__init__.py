"""The learner: tokenizer, processor, the tiny base model and its pretraining, sampling, supervised training.

    tokenizer   the tiny model's closed-vocabulary tokenizer       draw       pages as pixels, from glyphs that Chromium drew
    processor   Qwen3-VL processors without torchvision            pages      random pages on the compact grid
    tiny        the tiny Qwen3-VL: config, weights, fast vision    queries    synthetic tasks on those pages
    optimizer   Muon + AdamW, schedules                            pretrain   vision stage, grounding stage, the shipped base
    sampling    one prefill, many replies                          probe      can this machine's pages be read?
    local       LocalModel: the ChatModel in this process          sft        supervised training through TRL

torch, transformers and trl are imported inside the functions that use them.
"""
