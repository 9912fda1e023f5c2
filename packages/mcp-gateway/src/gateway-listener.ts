/** Where a gateway listens by itself. */
export interface ListenOptions {
  /** @default that of `http` */
  readonly host?: string | undefined
  /** 0: any that is free. @default that of `http` */
  readonly port?: number | undefined
  /** Also without auth at an address that others can reach. @default false */
  readonly insecure?: boolean | undefined
}

export interface GatewayListener extends AsyncDisposable {
  readonly host: string
  readonly port: number
  /** Of the MCP endpoint. */
  readonly url: string
  /** Stops listening here; the gateway goes on. */
  close(): Promise<void>
}
