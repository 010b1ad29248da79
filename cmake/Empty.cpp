// The only source of the libraries that carry precompiled headers.
