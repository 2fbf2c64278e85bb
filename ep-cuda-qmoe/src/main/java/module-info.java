/** The CUDA-QMoE provider. */
@SuppressWarnings("requires-automatic") // JCuda is an automatic module, named after its file
module dev.expertbank.qmoe {
  requires dev.expertbank.spi;
  requires java.management;
  requires jcuda;
  requires jdk.jfr;
  requires static org.jspecify;

  provides dev.expertbank.spi.ExecutionProviderFactory with
      dev.expertbank.qmoe.QMoeProviderFactory;
}
