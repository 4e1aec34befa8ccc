// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI bus of GPUs that are not there.
 *
 * qemu cannot give a device another vendor's number, so the machine makes its own: a root bus
 * 0000:80 whose configuration space lies in memory. The kernel finds, names and announces its
 * devices as any others, so lspci, sysfs, udev's autoloading and the binding of drivers are real.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <asm/pci.h>

#define BUS 0x80
#define SLOTS 32
#define VENDOR_NVIDIA 0x10de
#define DEVICE_H100_SXM 0x2330
#define DEVICE_NVSWITCH_3 0x22a3
#define CLASS_3D_CONTROLLER 0x0302
#define CLASS_BRIDGE_OTHER 0x0680
#define EXPRESS 0x40 /* where the PCI Express capability lies */
#define LINK_16_LANES_GEN5 (16 << 4 | 5)

static unsigned int gpus = 1;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "GPUs on the bus");
static unsigned int nvswitches;
module_param(nvswitches, uint, 0444);
MODULE_PARM_DESC(nvswitches, "NVSwitches on the bus, behind the GPUs");

static u8 space[SLOTS][256];
static struct pci_sysdata sysdata = { .node = NUMA_NO_NODE };
static struct platform_device *parent;
static struct pci_bus *root;

static u8 *config_of(unsigned int devfn)
{
	unsigned int slot = PCI_SLOT(devfn);

	return PCI_FUNC(devfn) || slot >= gpus + nvswitches ? NULL : space[slot];
}

static int read_config(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	u8 *config = bus->number == BUS ? config_of(devfn) : NULL;

	*value = 0;
	if (!config) {
		*value = ~0U;
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	if (where + size <= sizeof(space[0]))
		memcpy(value, config + where, size);
	return PCIBIOS_SUCCESSFUL;
}

/* Only the command register keeps what is written: the devices have no memory to map. */
static int write_config(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	u8 *config = bus->number == BUS ? config_of(devfn) : NULL;

	if (!config)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (where == PCI_COMMAND)
		memcpy(config + where, &value, min(size, 2));
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops operations = { .read = read_config, .write = write_config };

static void put16(unsigned int slot, int where, u16 value)
{
	memcpy(space[slot] + where, &value, sizeof(value));
}

static void fill(unsigned int slot, u16 device, u16 class)
{
	put16(slot, PCI_VENDOR_ID, VENDOR_NVIDIA);
	put16(slot, PCI_DEVICE_ID, device);
	put16(slot, PCI_CLASS_DEVICE, class);
	put16(slot, PCI_SUBSYSTEM_VENDOR_ID, VENDOR_NVIDIA);
	space[slot][PCI_REVISION_ID] = 0xa1;
	put16(slot, PCI_STATUS, PCI_STATUS_CAP_LIST);
	space[slot][PCI_CAPABILITY_LIST] = EXPRESS;
	space[slot][EXPRESS] = PCI_CAP_ID_EXP;
	put16(slot, EXPRESS + PCI_EXP_FLAGS, PCI_EXP_TYPE_ENDPOINT << 4 | 2);
	put16(slot, EXPRESS + PCI_EXP_LNKCAP, LINK_16_LANES_GEN5);
	put16(slot, EXPRESS + PCI_EXP_LNKSTA, LINK_16_LANES_GEN5);
}

static int __init phantom_gpus_init(void)
{
	LIST_HEAD(resources);
	unsigned int slot;

	if (gpus + nvswitches > SLOTS)
		return -EINVAL;
	for (slot = 0; slot < gpus; slot++)
		fill(slot, DEVICE_H100_SXM, CLASS_3D_CONTROLLER);
	for (; slot < gpus + nvswitches; slot++)
		fill(slot, DEVICE_NVSWITCH_3, CLASS_BRIDGE_OTHER);
	parent = platform_device_register_simple("phantom-gpus", -1, NULL, 0);
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	pci_lock_rescan_remove();
	root = pci_scan_root_bus(&parent->dev, BUS, &operations, &sysdata, &resources);
	if (root)
		pci_bus_add_devices(root);
	pci_unlock_rescan_remove();
	if (root)
		return 0;
	platform_device_unregister(parent);
	return -ENODEV;
}

module_init(phantom_gpus_init);
MODULE_DESCRIPTION("A PCI bus of GPUs that are not there");
MODULE_LICENSE("GPL");
