/** The CUDA-QMoE provider. */
module dev.expertbank.qmoe {
  requires dev.expertbank.spi;
  requires java.management;
  requires jdk.jfr;
  requires static org.jspecify;

  provides dev.expertbank.spi.ExecutionProviderFactory with
      dev.expertbank.qmoe.QMoeProviderFactory;
}
