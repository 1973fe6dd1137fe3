"""The networks of step_models.py in PyTorch, each as (module, inputs, labels): calling the module with the inputs gives its loss."""
import torch
from torch import nn
from torch.nn import functional as F

from step_models import VOCAB, Encoder, Lstm, Resnet, Vgg, hugging_face_config


class EncoderLoss(nn.Module):
    def __init__(self, model, attention):
        super().__init__()
        import transformers
        kind = transformers.DebertaV2ForSequenceClassification if model.is_deberta else transformers.BertForSequenceClassification
        config = hugging_face_config(model)
        if attention:  # else what transformers chooses
            config._attn_implementation = attention
        self.model = kind(config)

    def forward(self, ids, mask, labels):
        return self.model(input_ids=ids, attention_mask=mask, labels=labels).loss


class LstmLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, model.width, padding_idx=0)
        self.lstm = nn.LSTM(model.width, model.width, model.layers)  # steps before rows: a little faster than batch_first
        self.classifier = nn.Linear(model.width, 2)

    def forward(self, ids, labels):
        states, _ = self.lstm(self.embeddings(ids.t()))
        return F.cross_entropy(self.classifier(states[-1]), labels)


class Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.missing = stride, width - before

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        if self.missing:
            x = F.pad(x, (0, 0, 0, 0, self.missing // 2, self.missing - self.missing // 2))
        return F.relu(y + x)


class ResnetLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        before = model.widths[0]
        self.conv1 = nn.Conv2d(3, before, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(before)
        blocks = []
        for stage, width in enumerate(model.widths):
            for i in range(model.blocks):
                blocks.append(Block(before, width, 2 if stage > 0 and i == 0 else 1))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(before, 10)

    def forward(self, images, labels):
        x = self.blocks(F.relu(self.bn1(self.conv1(images))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


class VggLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        features, before = [], 3
        for depth, width in zip(model.depths, model.widths):
            for _ in range(depth):
                features += [nn.Conv2d(before, width, 3, 1, 1), nn.ReLU(inplace=True)]
                before = width
            features.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*features)
        rest = before * (model.side >> len(model.depths)) ** 2
        self.classifier = nn.Sequential(nn.Linear(rest, model.hidden), nn.ReLU(inplace=True), nn.Dropout(),
                                        nn.Linear(model.hidden, model.hidden), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(model.hidden, 10))

    def forward(self, images, labels):
        return F.cross_entropy(self.classifier(self.features(images).flatten(1)), labels)


def build(model, batch, length, attention, memory_format):
    if model.kind == "images":
        inputs = (torch.randn(batch, 3, model.side, model.side), torch.randint(0, 10, (batch,)))
        module = {Resnet: ResnetLoss, Vgg: VggLoss}[type(model)](model)
        if memory_format == "channels_last":
            module = module.to(memory_format=torch.channels_last)
            inputs = (inputs[0].contiguous(memory_format=torch.channels_last), inputs[1])
        return module, inputs
    ids, labels = torch.randint(5, VOCAB, (batch, length)), torch.randint(0, 2, (batch,))
    if isinstance(model, Lstm):
        return LstmLoss(model), (ids, labels)
    assert isinstance(model, Encoder)
    return EncoderLoss(model, attention), (ids, torch.ones_like(ids), labels)
