package dev.expertbank.spi.qmoe;

import java.util.Arrays;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The inputs of {@code com.microsoft::QMoE}, in slot order. */
public enum QMoeInput {
  INPUT(0, "input", Role.INPUT, null),
  ROUTER_PROBS(1, "router_probs", Role.ROUTER_PROBS, null),
  FC1_WEIGHTS(2, "fc1_experts_weights", Role.WEIGHTS, Fc.FC1),
  FC1_SCALES(3, "fc1_scales", Role.SCALES, Fc.FC1),
  FC1_BIAS(4, "fc1_experts_bias", Role.BIAS, Fc.FC1),
  FC2_WEIGHTS(5, "fc2_experts_weights", Role.WEIGHTS, Fc.FC2),
  FC2_SCALES(6, "fc2_scales", Role.SCALES, Fc.FC2),
  FC2_BIAS(7, "fc2_experts_bias", Role.BIAS, Fc.FC2),
  FC3_WEIGHTS(8, "fc3_experts_weights", Role.WEIGHTS, Fc.FC3),
  FC3_SCALES(9, "fc3_scales", Role.SCALES, Fc.FC3),
  FC3_BIAS(10, "fc3_experts_bias", Role.BIAS, Fc.FC3),
  FC1_ZERO_POINTS(11, "fc1_zero_points", Role.ZERO_POINTS, Fc.FC1),
  FC2_ZERO_POINTS(12, "fc2_zero_points", Role.ZERO_POINTS, Fc.FC2),
  FC3_ZERO_POINTS(13, "fc3_zero_points", Role.ZERO_POINTS, Fc.FC3),
  ROUTER_WEIGHTS(14, "router_weights", Role.ROUTER_WEIGHTS, null),
  FC1_GLOBAL_SCALE(15, "fc1_global_scale", Role.FLOAT_FORMAT, Fc.FC1),
  FC2_GLOBAL_SCALE(16, "fc2_global_scale", Role.FLOAT_FORMAT, Fc.FC2),
  FC1_ACT_SCALE(17, "fc1_act_scale", Role.FLOAT_FORMAT, Fc.FC1),
  FC2_ACT_SCALE(18, "fc2_act_scale", Role.FLOAT_FORMAT, Fc.FC2),
  FC1_ACT_BLOCK_SCALE(19, "fc1_act_block_scale", Role.FLOAT_FORMAT, Fc.FC1),
  FC2_ACT_BLOCK_SCALE(20, "fc2_act_block_scale", Role.FLOAT_FORMAT, Fc.FC2);

  /** What an input is for. */
  public enum Role {
    /** {@code [tokens, hidden]} or {@code [batch, sequence, hidden]}. */
    INPUT,
    /** Logits, in spite of the name: {@code [tokens, experts]}. */
    ROUTER_PROBS,
    /**
     * Packed integers, {@code [experts, N, K·bits/8]}, or also {@code [experts, K, N·bits/8]} where
     * the layout is {@link WeightLayout#SM80}.
     */
    WEIGHTS,
    /** {@code [experts, N]}, {@code [experts, N, 1]} or {@code [experts, N, ceil(K/blockSize)]}. */
    SCALES,
    /** {@code [experts, N]}. */
    BIAS,
    /** Packed integers, {@code [experts, N/pack]} or {@code [experts, N, ceil(blocks/pack)]}. */
    ZERO_POINTS,
    /** Mixing weights, {@code [tokens, experts]}. */
    ROUTER_WEIGHTS,
    /** Only for the floating-point weight formats. */
    FLOAT_FORMAT
  }

  private final int slot;
  private final String schemaName;
  private final Role role;
  private final @Nullable Fc fc;

  QMoeInput(int slot, String schemaName, Role role, @Nullable Fc fc) {
    this.slot = slot;
    this.schemaName = schemaName;
    this.role = role;
    this.fc = fc;
  }

  /** The operator slot, counted from 0. */
  public int slot() {
    return slot;
  }

  /** The name in the operator schema, such as {@code fc1_experts_weights}. */
  public String schemaName() {
    return schemaName;
  }

  public Role role() {
    return role;
  }

  /** The layer that the input belongs to; empty for the inputs that belong to none. */
  public Optional<Fc> fc() {
    return Optional.ofNullable(fc);
  }

  /** Whether the input holds something of every expert: weights, scales, a bias or zero points. */
  public boolean isExpertTensor() {
    return switch (role) {
      case WEIGHTS, SCALES, BIAS, ZERO_POINTS -> true;
      case INPUT, ROUTER_PROBS, ROUTER_WEIGHTS, FLOAT_FORMAT -> false;
    };
  }

  /** The expert tensor of that layer and role. */
  public static QMoeInput of(Fc fc, Role role) {
    return Arrays.stream(values())
        .filter(input -> input.fc == fc && input.role == role && input.isExpertTensor())
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException(role + " is no expert tensor"));
  }
}
