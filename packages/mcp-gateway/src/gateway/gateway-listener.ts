/** Where a gateway listens by itself. */
export interface ListenOptions {
  /** Address to listen on. @default `http.host` */
  readonly host?: string | undefined
  /** 0: any that is free. @default `http.port` */
  readonly port?: number | undefined
  /** Listens without `auth` even at an address that others can reach. @default false */
  readonly insecure?: boolean | undefined
}

/** One address at which a gateway listens. */
export interface GatewayListener extends AsyncDisposable {
  readonly host: string
  /** The one that was chosen, where any was wanted. */
  readonly port: number
  /** URL of the MCP endpoint. */
  readonly url: string
  /** Stops listening here; the gateway goes on. */
  close(): Promise<void>
}
