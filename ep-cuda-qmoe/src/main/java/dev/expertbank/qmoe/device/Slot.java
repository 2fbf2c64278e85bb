package dev.expertbank.qmoe.device;

/** Memory of a device that holds one expert. */
public record Slot(long address, long bytes) {}
