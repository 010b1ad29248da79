"""Entries of the packages torchvision and timm: classifiers of images."""

import importlib

from .registry import entry, images

#: name: (size of images, options)
TORCHVISION = {
    "resnet18": (32, {}), "resnext50_32x4d": (32, {}), "mobilenet_v2": (64, dict(dropout=0.0)),
    "mobilenet_v3_small": (32, dict(dropout=0.0)), "efficientnet_b0":
    (32, dict(dropout=0.0, stochastic_depth_prob=0.0)), "densenet121": (32, {}),
    "squeezenet1_1": (64, dict(dropout=0.0)), "shufflenet_v2_x0_5": (32, {}),
    "mnasnet0_5": (32, dict(dropout=0.0)), "regnet_y_400mf": (32, {}), "convnext_tiny": (32, dict(stochastic_depth_prob=0.0)),
    "googlenet": (64, dict(aux_logits=False, init_weights=False, dropout=0.0)),
}  # fmt: skip


def _torchvision(name, options):
    def make():
        models = importlib.import_module("torchvision.models")
        return getattr(models, name)(num_classes=10, **options)

    return make


for _name, (_size, _options) in TORCHVISION.items():
    entry(f"torchvision/{_name}", "torchvision")(images(_torchvision(_name, _options), _size))

#: name: options
TIMM = {
    "vit_tiny_patch16_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "deit3_small_patch16_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "mixer_s16_224": dict(img_size=32),
    "gmlp_ti16_224": dict(img_size=32),
    "eva02_tiny_patch14_224": dict(img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4),
    "convnext_atto": dict(depths=(1, 1, 1, 1), dims=(16, 32, 48, 64)),
    "resnet10t": {}, "efficientnet_lite0": {}, "mobilenetv3_small_050": dict(drop_rate=0.0),
    "poolformer_s12": {}, "ghostnet_050": dict(drop_rate=0.0),
    "regnetx_002": {}, "coatnet_nano_rw_224": dict(img_size=32),
}  # fmt: skip


def _timm(name, options):
    def make():
        return importlib.import_module("timm").create_model(name, num_classes=10, **options)

    return make


for _name, _options in TIMM.items():
    entry(f"timm/{_name}", "timm")(images(_timm(_name, _options), 32))
