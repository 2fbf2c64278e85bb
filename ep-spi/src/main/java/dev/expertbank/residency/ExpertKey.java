package dev.expertbank.residency;

/**
 * One expert of one MoE layer: the unit that is resident or not, with all its tensors.
 *
 * @param layer counts the MoE layers of a model from 0
 */
public record ExpertKey(int layer, int expert) {}
