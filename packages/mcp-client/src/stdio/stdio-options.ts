/** How servers are started that are programs (`{ command }`). */
export interface StdioOptions {
  /**
   * `login-shell`: a command that is not in `PATH` is looked for in the `PATH` of the user's login shell,
   * and the server then gets that one. For desktop programs, which are started without it. @default 'env'
   */
  readonly pathFrom?: 'env' | 'login-shell' | undefined
  /** Takes the place of this process's `PATH`; that of a server's `env` goes before it. @default that of this process */
  readonly path?: string | undefined
  /**
   * Where a server without `cwd` gets a folder of its own, made on demand. Absolute.
   * @default `mcp-client` in the user's cache folder
   */
  readonly cacheFolder?: string | undefined
}
