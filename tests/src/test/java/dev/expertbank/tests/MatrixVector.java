package dev.expertbank.tests;

import dev.expertbank.model.Sm80Encoder;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ElementType;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * One file of {@code qmoe_vectors} that holds a weight matrix in both layouts.
 *
 * @param outputs rows of the matrix
 * @param inputs of a row
 * @param plain its bytes, row by row
 * @param swizzled its bytes in the layout of {@link Sm80Layout}
 * @param values row by row
 */
record MatrixVector(
    String file,
    int bits,
    int outputs,
    int inputs,
    List<Byte> plain,
    List<Byte> swizzled,
    List<Double> values) {
  /** Rows and columns of a node's weights are multiples of it. */
  private static final int TILE = 64;

  static Stream<MatrixVector> all() {
    return VectorCase.files().stream()
        .filter(f -> f.startsWith("derived_layout_"))
        .map(MatrixVector::read);
  }

  private static MatrixVector read(String file) {
    Map<?, ?> json = (Map<?, ?>) VectorCase.json(file);
    return new MatrixVector(
        file,
        integer(json, "bits"),
        integer(json, "N"),
        integer(json, "K"),
        bytes(json, "plain_bytes"),
        bytes(json, "sm80_bytes"),
        Arrays.stream(VectorCase.numbers(VectorCase.field(json, "signed_values_row_major_NK")))
            .boxed()
            .toList());
  }

  byte[] plainBytes() {
    return array(plain);
  }

  byte[] swizzledBytes() {
    return array(swizzled);
  }

  /**
   * A node of one expert whose output is the matrix times the input: element n of a token's output
   * is row n modulo {@link #outputs}. The matrix is in fc1, as often as rows are needed, and fc2
   * only hands on what fc1 has computed.
   *
   * @param sm80 whether the weights are in that layout, and of the transposed shape
   * @param rows tokens, of {@link #inputs} elements
   */
  MoeNode node(boolean sm80, double[] rows) {
    int inter = outputs;
    while (inter % TILE != 0) {
      inter += outputs;
    }
    long tokens = rows.length / inputs;
    byte[] fc1 = repeated(sm80 ? swizzledBytes() : plainBytes(), inter / outputs);
    byte[] plainFc2 = handOn(inter);
    byte[] fc2 = sm80 ? Sm80Encoder.encode(bits, inter, plainFc2) : plainFc2;
    @Nullable TensorData[] slots = new @Nullable TensorData[7];
    slots[MoeNode.INPUT] = TensorData.of(ElementType.FLOAT, new long[] {tokens, inputs}, rows);
    slots[MoeNode.ROUTER_PROBS] =
        TensorData.of(ElementType.FLOAT, new long[] {tokens, 1}, new double[(int) tokens]);
    slots[2] = TensorData.ofBytes(shape(sm80, inter, inputs), fc1);
    slots[3] = ones(inter);
    slots[5] = TensorData.ofBytes(shape(sm80, inputs, inter), fc2);
    slots[6] = ones(inputs);
    return new MoeNode(
        "QMoE",
        Map.of(
            "activation_type", new AttributeValue.StringValue("identity"),
            "expert_weight_bits", new AttributeValue.IntValue(bits),
            "weights_prepacked", new AttributeValue.IntValue(sm80 ? 1 : 0)),
        Arrays.asList(slots));
  }

  /** A token for each column of the matrix, which is 1 there and 0 elsewhere. */
  double[] oneHotRows() {
    double[] rows = new double[inputs * inputs];
    for (int token = 0; token < inputs; token++) {
      rows[token * inputs + token] = 1;
    }
    return rows;
  }

  /** The output of the node for {@link #oneHotRows}, exactly. */
  double[] readOff() {
    double[] output = new double[inputs * inputs];
    for (int token = 0; token < inputs; token++) {
      for (int n = 0; n < inputs; n++) {
        output[token * inputs + n] = values.get(n % outputs * inputs + token);
      }
    }
    return output;
  }

  /** Plain weights of which row n is 1 at n modulo {@code inter} and 0 elsewhere. */
  private byte[] handOn(int inter) {
    int perByte = 8 / bits;
    byte[] weights = new byte[inputs * inter / perByte];
    Arrays.fill(weights, (byte) (bits == 4 ? 0x88 : 0x80));
    for (int n = 0; n < inputs; n++) {
      int k = n % inter;
      weights[(n * inter + k) / perByte] += (byte) (1 << (k % perByte * bits));
    }
    return weights;
  }

  private long[] shape(boolean sm80, int rows, int reduction) {
    return sm80
        ? new long[] {1, reduction, rows * bits / 8}
        : new long[] {1, rows, reduction * bits / 8};
  }

  private static TensorData ones(int rows) {
    double[] ones = new double[rows];
    Arrays.fill(ones, 1);
    return TensorData.of(ElementType.FLOAT, new long[] {1, rows}, ones);
  }

  private static byte[] repeated(byte[] bytes, int times) {
    byte[] all = new byte[bytes.length * times];
    for (int i = 0; i < times; i++) {
      System.arraycopy(bytes, 0, all, i * bytes.length, bytes.length);
    }
    return all;
  }

  private static int integer(Map<?, ?> json, String field) {
    return ((Number) VectorCase.field(json, field)).intValue();
  }

  private static List<Byte> bytes(Map<?, ?> json, String field) {
    return Arrays.stream(VectorCase.numbers(VectorCase.field(json, field)))
        .mapToObj(number -> (byte) (int) number)
        .toList();
  }

  private static byte[] array(List<Byte> list) {
    byte[] bytes = new byte[list.size()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = list.get(i);
    }
    return bytes;
  }

  @Override
  public String toString() {
    return file;
  }
}
