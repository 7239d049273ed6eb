"""Surgery on OpenVINO graphs: one exact rewrite a file. Nothing here compiles or runs a model."""
