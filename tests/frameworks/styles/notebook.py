"""A notebook, exported as a script."""

# In[1]:

import time

import torch
from torch import nn

# In[2]:


torch.manual_seed(0)
x_train, y_train = torch.randn(4000, 256), torch.randint(0, 2, (4000,))
x_val, y_val = torch.randn(1000, 256), torch.randint(0, 2, (1000,))
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 2))
opt = torch.optim.Adam(net.parameters())


# In[3]:


def run_epoch():
    total = 0.0
    for i in range(0, 4000, 10):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x_train[i : i + 10]), y_train[i : i + 10])
        loss.backward()
        opt.step()
        total += loss.item()
    return total / 400


# In[4]:


for epoch in range(100):
    start = time.time()
    train_loss = run_epoch()
    with torch.no_grad():
        val_loss = nn.functional.cross_entropy(net(x_val), y_val)
    print("Epoch", epoch + 1)
    print("  train loss: %.4f" % train_loss)
    print("  val loss: %.4f   (%.1fs)" % (val_loss, time.time() - start))
