package dev.expertbank.qmoe.device;

/**
 * One tensor of a copy into a slot.
 *
 * @param slotOffset where it goes, in bytes
 */
public record CopyPiece(WeightSource source, long slotOffset) {}
