package dev.expertbank.qmoe.boundary;

import dev.expertbank.residency.PolicySettings.PinSettings;
import java.nio.file.Path;
import java.util.Optional;

/**
 * How a session keeps experts in fast memory.
 *
 * @param policy a name that {@link dev.expertbank.residency.ResidencyPolicies} knows
 * @param byteCap what the copies that start at one boundary may read together
 * @param loadProfile where the heat starts from
 * @param saveProfile where the heat is written when the session is closed
 * @param prefillStreaming whether prefill streams cold experts through two slots
 * @param pins for the policies that pin experts
 */
public record ResidencyOptions(
    MemoryBudget budget,
    String policy,
    long byteCap,
    Optional<Path> loadProfile,
    Optional<Path> saveProfile,
    PrefillStreaming prefillStreaming,
    PinSettings pins) {}
