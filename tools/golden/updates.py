# SPDX-License-Identifier: Apache-2.0
"""What the goldens of whole models share: ten updates on one batch, with clipping and a linear schedule to zero."""
import torch
import torch.nn.functional as F

MAX_NORM, STEPS = 0.5, 10


def loss_of(logits, labels, row_weights):
    return (F.cross_entropy(logits, labels, reduction="none") * row_weights).sum() / row_weights.sum()


def groups(model, decay):
    """Biases and the weights of normalisations do not decay."""
    return [dict(params=[p for p in model.parameters() if (p.dim() > 1) == yes], weight_decay=decay * yes) for yes in (True, False)]


def run_updates(name, model, optimizer, loss_of_model, state_of, out):
    """Adds NAME/losses, NAME/norms and every value of state_of() after the last update."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of_model()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).detach())
        losses.append(loss.detach())
        optimizer.step()
        schedule.step()
    out[f"{name}/losses"], out[f"{name}/norms"] = torch.stack(losses), torch.stack(norms)
    out |= {f"{name}/updated/{key}": x for key, x in state_of(model).items()}
