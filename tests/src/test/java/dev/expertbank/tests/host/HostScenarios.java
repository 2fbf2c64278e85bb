package dev.expertbank.tests.host;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.tests.host.ReluProviderFactory.ThrowIn;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** Things that could end a JVM, to be run in one of their own. The first argument names one. */
public final class HostScenarios {
  private static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();

  private HostScenarios() {}

  public static void main(String[] arguments) throws Exception {
    switch (arguments[0]) {
      case "throw-in" -> throwIn(ThrowIn.valueOf(arguments[1]), Map.of());
      case "throw-in-allowed" ->
          throwIn(ThrowIn.valueOf(arguments[1]), Map.of("fallback", "allow"));
      case "exit-with-open-session" -> exitWithOpenSession();
      case "exit-while-running" -> exitWhileRunning();
      case "unnamable" -> openUnnamable(arguments[1]);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  private static void throwIn(ThrowIn where, Map<String, String> extraOptions) throws Exception {
    var providerOptions = new java.util.HashMap<>(extraOptions);
    providerOptions.put("throw-in", where.name().toLowerCase(Locale.ROOT).replace('_', '-'));
    try (var options = new OrtSession.SessionOptions();
        Registration registration =
            ExecutionProviders.require("JavaRelu")
                .register(ENVIRONMENT, options, providerOptions)) {
      try (var session =
          ENVIRONMENT.createSession(SmallModels.chain("Neg", "Relu", "Neg"), options)) {
        System.out.println("session created");
        for (int i = 0; i < 2; i++) {
          try {
            System.out.println("ran " + Arrays.toString(run(session, 1, -2, 3)));
          } catch (OrtException e) {
            System.out.println("run failed: " + e.getMessage());
          }
        }
        System.out.println("outcome " + registration.sessions().getFirst().lastBoundaryOutcome());
      } catch (OrtException e) {
        System.out.println("no session: " + e.getMessage());
      }
      System.out.println("open sessions " + registration.sessions().size());
    }
    System.out.println("alive");
  }

  /** ONNX Runtime takes names as UTF-8, so it has to write the file where Java cannot name it. */
  private static void openUnnamable(String folder) throws OrtException {
    String model = folder + "/mod\u00e8le.onnx";
    try (var options = new OrtSession.SessionOptions()) {
      options.setOptimizedModelFilePath(model);
      ENVIRONMENT.createSession(SmallModels.chain("Neg"), options).close();
    }
    try {
      System.out.println("named " + Path.of(model));
    } catch (InvalidPathException e) {
      System.out.println("unnamable");
    }
    try (var options = new OrtSession.SessionOptions();
        Registration _ =
            ExecutionProviders.require("JavaRelu").register(ENVIRONMENT, options, Map.of());
        var session = ENVIRONMENT.createSession(model, options)) {
      System.out.println("ran " + Arrays.toString(run(session, 1, -2)));
    }
  }

  private static void exitWithOpenSession() throws Exception {
    var options = new OrtSession.SessionOptions();
    ExecutionProviders.require("JavaRelu").register(ENVIRONMENT, options, Map.of());
    var session = ENVIRONMENT.createSession(SmallModels.chain("Relu"), options);
    System.out.println("ran " + Arrays.toString(run(session, -1, 1)));
  }

  private static void exitWhileRunning() throws Exception {
    var options = new OrtSession.SessionOptions();
    ExecutionProviders.require("JavaRelu").register(ENVIRONMENT, options, Map.of());
    var session = ENVIRONMENT.createSession(SmallModels.chain("Relu"), options);
    CountDownLatch running = new CountDownLatch(1);
    Thread.ofPlatform()
        .daemon()
        .start(
            () -> {
              try {
                while (true) {
                  run(session, -1, 1);
                  running.countDown();
                }
              } catch (Exception e) {
                System.out.println("stopped: " + e);
              }
            });
    running.await();
    System.out.println("exiting");
    System.exit(0);
  }

  static float[] run(OrtSession session, float... x) throws OrtException {
    try (OnnxTensor input = OnnxTensor.createTensor(ENVIRONMENT, x);
        OrtSession.Result result = session.run(Map.of("x", input))) {
      return (float[]) result.get(0).getValue();
    }
  }
}
