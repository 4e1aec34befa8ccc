// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for nouveau, which the kernel for clouds comes without: it takes every GPU it sees.
 *
 * It has the alias of the real one, so that udev loads it wherever nothing forbids it.
 */
#include <linux/module.h>
#include <linux/pci.h>

static int probe(struct pci_dev *gpu, const struct pci_device_id *id)
{
	return 0;
}

static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(0x10de, PCI_ANY_ID), .class = 0x030000, .class_mask = 0xff0000 },
	{}
};
MODULE_DEVICE_TABLE(pci, devices);

static struct pci_driver nouveau = { .name = "nouveau", .id_table = devices, .probe = probe };

module_pci_driver(nouveau);
MODULE_DESCRIPTION("A stand-in for nouveau");
MODULE_LICENSE("GPL");
