package dev.expertbank.ort;

import static dev.expertbank.ort.OrtStructField.EP_BYTES;
import static dev.expertbank.ort.OrtStructField.EP_COMPILE;
import static dev.expertbank.ort.OrtStructField.EP_GET_CAPABILITY;
import static dev.expertbank.ort.OrtStructField.EP_GET_DEFAULT_MEMORY_DEVICE;
import static dev.expertbank.ort.OrtStructField.EP_GET_KERNEL_REGISTRY;
import static dev.expertbank.ort.OrtStructField.EP_GET_NAME;
import static dev.expertbank.ort.OrtStructField.EP_ON_RUN_END;
import static dev.expertbank.ort.OrtStructField.EP_ON_RUN_START;
import static dev.expertbank.ort.OrtStructField.EP_ON_SESSION_INITIALIZATION_END;
import static dev.expertbank.ort.OrtStructField.EP_RELEASE_NODE_COMPUTE_INFOS;
import static dev.expertbank.ort.OrtStructField.NODE_FUSION_OPTIONS_BYTES;
import static dev.expertbank.ort.OrtStructField.NODE_FUSION_OPTIONS_DROP_CONSTANT_INITIALIZERS;

import dev.expertbank.natives.Native;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.PlacementReport;
import dev.expertbank.spi.PlacementReport.NodePlacement;
import dev.expertbank.spi.ProviderSession;
import dev.expertbank.spi.WeightReport;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** One session's {@code OrtEp}: from CreateEp until ONNX Runtime calls ReleaseEp. */
final class PluginSession implements ProviderSession {
  private static final HandleTable<PluginSession> SESSIONS = new HandleTable<>();

  private static final Map<OrtStructField, Long> STUBS =
      Upcall.stubs(
          MethodHandles.lookup(),
          Map.of(
              EP_GET_NAME, "getName",
              EP_GET_CAPABILITY, "getCapability",
              EP_COMPILE, "compile",
              EP_RELEASE_NODE_COMPUTE_INFOS, "releaseNodeComputeInfos",
              EP_ON_RUN_START, "onRunStart",
              EP_ON_RUN_END, "onRunEnd",
              EP_ON_SESSION_INITIALIZATION_END, "onSessionInitializationEnd"));

  /** A provider on the host leaves these fields NULL. */
  private static final Map<OrtStructField, Long> GPU_STUBS =
      Upcall.stubs(
          MethodHandles.lookup(),
          Map.of(
              EP_GET_DEFAULT_MEMORY_DEVICE, "getDefaultMemoryDevice",
              EP_GET_KERNEL_REGISTRY, "getKernelRegistry"));

  private final PluginFactory factory;
  private final ExecutionProvider provider;
  private final boolean fallbackAllowed;
  private final @Nullable OrtGpuMemory gpuMemory;
  private final RunGate gate;
  private final long handle;
  private final CStruct struct;

  /** By graph and first output, which is unique in a graph: ONNX Runtime may ask more than once. */
  private final Map<String, NodePlacement> placements = new LinkedHashMap<>();

  private @Nullable EpException graphFailure;
  private volatile boolean created;

  /** Takes ownership of both. */
  PluginSession(
      PluginFactory factory,
      ExecutionProvider provider,
      @Nullable OrtGpuMemory gpuMemory,
      boolean fallbackAllowed) {
    this.factory = factory;
    this.provider = provider;
    this.gpuMemory = gpuMemory;
    this.fallbackAllowed = fallbackAllowed;
    this.gate = new RunGate(provider::consumeRouteResidencyAtBoundary);
    this.handle = SESSIONS.add(this);
    Map<OrtStructField, Long> stubs = new EnumMap<>(STUBS);
    if (gpuMemory != null) {
      stubs.putAll(GPU_STUBS);
    }
    this.struct = new CStruct(EP_BYTES, handle, stubs);
  }

  long address() {
    return struct.address();
  }

  ExecutionProvider provider() {
    return provider;
  }

  /** Where the provider wants tensors; null for the host. */
  @Nullable OrtGpuMemory gpuMemory() {
    return gpuMemory;
  }

  static PluginSession at(long address) {
    return SESSIONS.get(CStruct.handle(address, EP_BYTES));
  }

  void release() {
    SESSIONS.remove(handle);
    struct.close();
    if (gpuMemory != null) {
      gpuMemory.close();
    }
    gate.close();
    provider.close();
  }

  /** At the end of initialisation; ONNX Runtime before 1.27 does not tell it, a first run does. */
  private void ensureCreated() {
    if (!created) {
      synchronized (this) {
        if (!created) {
          provider.sessionCreated(gate);
          created = true;
        }
      }
    }
  }

  @Override
  public PlacementReport placement() {
    synchronized (placements) {
      return new PlacementReport(List.copyOf(placements.values()));
    }
  }

  @Override
  public long boundaries() {
    return gate.boundaries();
  }

  @Override
  public Optional<BoundaryOutcome> lastBoundaryOutcome() {
    return Optional.ofNullable(gate.lastOutcome());
  }

  @Override
  public CompletableFuture<ResizeOutcome> resize(ResizeRequest request) {
    return gate.next(() -> provider.resize(request));
  }

  @Override
  public WeightReport weights() {
    return provider.weights();
  }

  @Override
  public Optional<ResidencyMetrics> metrics() {
    return provider.metrics();
  }

  // Upcalls: package-private for Upcall, which guards them all. Each finds its session and hands
  // over.

  static long getName(long self) {
    return at(self).factory.epNameAddress();
  }

  static long getCapability(long self, long graph, long supportInfo) {
    PluginSession session = at(self);
    try {
      session.claimNodes(graph, supportInfo);
      return 0;
    } catch (RuntimeException | Error e) {
      // ONNX Runtime only logs an error from here and runs the graph on its CPU provider: keep
      // the failure for a callback whose errors do end session creation.
      session.graphFailure = new EpException("claim.failed", "reading the graph failed: " + e, e);
      throw e;
    }
  }

  static long compile(
      long self, long graphs, long fusedNodes, long count, long computeInfos, long epContextNodes) {
    at(self).compileNodes(graphs, fusedNodes, Math.toIntExact(count), computeInfos);
    return 0;
  }

  static void releaseNodeComputeInfos(long self, long computeInfos, long count) {
    MemorySegment infos = Native.view(computeInfos, Long.BYTES * count);
    RuntimeException failure = null;
    for (long i = 0; i < count; i++) {
      long info = infos.getAtIndex(ValueLayout.JAVA_LONG, i);
      if (info != 0) {
        try {
          PluginNode.at(info).release();
        } catch (RuntimeException e) {
          failure = e;
        }
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  static long onRunStart(long self, long runOptions) {
    PluginSession session = at(self);
    session.ensureCreated();
    session.gate.runStarted();
    return 0;
  }

  /**
   * ONNX Runtime calls this for every provider of the session, in the order in which they were
   * added, after it has put the copies of the outputs on its streams; then it waits for the
   * streams, unless the run's options say not to. So here a stream's work may still be going on,
   * and a boundary that reads what such work writes has to wait for it. {@code syncStream} asks
   * that of a provider with streams of its own, which this host gives to none.
   */
  static long onRunEnd(long self, long runOptions, boolean syncStream) {
    at(self).gate.runEnded();
    return 0;
  }

  static long getDefaultMemoryDevice(long self, long device) {
    long memoryDevice = Objects.requireNonNull(at(self).gpuMemory).memoryDevice();
    Native.view(device, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, memoryDevice);
    return 0;
  }

  static long getKernelRegistry(long self, long registry) {
    Native.view(registry, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, at(self).factory.copyKernels());
    return 0;
  }

  static long onSessionInitializationEnd(long self) {
    PluginSession session = at(self);
    session.failOnGraphFailure();
    session.ensureCreated();
    return 0;
  }

  private void claimNodes(long graph, long supportInfo) {
    try (OrtGraphReader reader = new OrtGraphReader()) {
      String graphName = reader.graphName(graph);
      for (long handle : reader.nodes(graph)) {
        // Claimed before the next is read, because a provider may begin to load it.
        OrtGraphReader.Entry entry = reader.entry(handle);
        if (entry.epName().equals(factory.epName())) {
          continue; // fused earlier, when ONNX Runtime asked about this graph before
        }
        Claim claim = claim(entry, () -> reader.modelDirectory(graph));
        record(graphName, entry.node(), claim);
        boolean failsInCompile = claim instanceof Claim.Refused && !fallbackAllowed;
        if (claim instanceof Claim.Claimed || failsInCompile) {
          boolean dropConstants = !(claim instanceof Claim.Claimed c) || c.dropConstants();
          addNodeToFuse(supportInfo, handle, dropConstants);
        }
      }
    }
  }

  private Claim claim(OrtGraphReader.Entry entry, Supplier<Path> modelDirectory) {
    if (!entry.epName().isEmpty()) {
      return new Claim.NotApplicable("already placed on " + entry.epName());
    }
    try {
      return provider.claim(entry.node(), modelDirectory);
    } catch (RuntimeException | Error e) {
      return new Claim.Refused("claim.failed", "the claim rule threw " + e);
    }
  }

  private void record(String graphName, GraphNode node, Claim claim) {
    String key = node.outputs().stream().map(GraphValue::name).findFirst().orElse(node.name());
    synchronized (placements) {
      placements.put(
          graphName + "\n" + key,
          new NodePlacement(graphName, node.name(), node.qualifiedType(), claim));
    }
  }

  private static void addNodeToFuse(long supportInfo, long node, boolean dropConstants) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment nodes = arena.allocateFrom(ValueLayout.JAVA_LONG, node);
      MemorySegment options = arena.allocate(NODE_FUSION_OPTIONS_BYTES, 4);
      options.set(ValueLayout.JAVA_INT, 0, OrtRuntime.current().apiVersion());
      options.set(
          ValueLayout.JAVA_BYTE,
          NODE_FUSION_OPTIONS_DROP_CONSTANT_INITIALIZERS,
          (byte) (dropConstants ? 1 : 0));
      OrtFunction function = OrtFunction.EP_GRAPH_SUPPORT_INFO_ADD_NODES_TO_FUSE;
      OrtStatus.check(
          (long) function.handle().invokeExact(supportInfo, nodes.address(), 1L, options.address()),
          function);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private void compileNodes(long graphs, long fusedNodes, int count, long computeInfos) {
    failOnGraphFailure();
    failOnRefusals();
    MemorySegment graphArray = Native.view(graphs, (long) Long.BYTES * count);
    MemorySegment nodeArray = Native.view(fusedNodes, (long) Long.BYTES * count);
    MemorySegment infoArray = Native.view(computeInfos, (long) Long.BYTES * count);
    List<PluginNode> compiled = new ArrayList<>();
    try {
      for (int i = 0; i < count; i++) {
        compiled.add(
            compileNode(
                graphArray.getAtIndex(ValueLayout.JAVA_LONG, i),
                nodeArray.getAtIndex(ValueLayout.JAVA_LONG, i)));
      }
    } catch (RuntimeException | Error e) {
      compiled.forEach(PluginNode::release);
      throw e;
    }
    for (int i = 0; i < count; i++) {
      infoArray.setAtIndex(ValueLayout.JAVA_LONG, i, compiled.get(i).address());
    }
  }

  private void failOnGraphFailure() {
    if (graphFailure != null && !fallbackAllowed) {
      throw graphFailure;
    }
  }

  private void failOnRefusals() {
    List<NodePlacement> refused = placement().refused();
    if (!fallbackAllowed && !refused.isEmpty()) {
      String reasons =
          refused.stream()
              .limit(5)
              .map(PluginSession::refusalText)
              .collect(Collectors.joining("; "));
      throw new EpException(
          "placement.refused",
          refused.size()
              + " node(s) cannot run on "
              + factory.epName()
              + ": "
              + reasons
              + (refused.size() > 5 ? "; …" : "")
              + ". Set option fallback=allow to leave them to ONNX Runtime's other providers.");
    }
  }

  private static String refusalText(NodePlacement placement) {
    Claim.Refused refused = (Claim.Refused) placement.claim();
    return "node '"
        + placement.node()
        + "' ("
        + placement.qualifiedType()
        + ") ["
        + refused.code()
        + "] "
        + refused.reason();
  }

  private PluginNode compileNode(long graph, long fusedNode) {
    try (OrtGraphReader reader = new OrtGraphReader()) {
      List<Long> nodes = reader.nodes(graph);
      if (nodes.size() != 1) {
        throw new EpException(
            "compile.graph", "expected one node in a fused graph, found " + nodes.size());
      }
      GraphNode node = reader.entry(nodes.getFirst()).node();
      return new PluginNode(
          provider.compile(node, reader.modelDirectory(graph)),
          inputIndexBySlot(node, reader.inputNames(fusedNode)),
          gpuMemory);
    }
  }

  /** Fused inputs keep names but not slots: omitted and dropped inputs are gone, repeats merged. */
  private static int[] inputIndexBySlot(GraphNode node, List<String> fusedInputNames) {
    int[] indices = new int[node.inputs().size()];
    Arrays.setAll(
        indices,
        slot -> node.input(slot).map(value -> fusedInputNames.indexOf(value.name())).orElse(-1));
    return indices;
  }
}
