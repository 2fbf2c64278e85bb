package dev.expertbank.residency;

/**
 * What a policy is made with.
 *
 * @param layout of the bank
 */
public record PolicySettings(ResidencyLayout layout) {}
