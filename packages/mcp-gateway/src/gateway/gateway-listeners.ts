import type { Authenticator } from '../http/auth/authenticator.ts'
import { checkAuthFits } from '../http/auth/combine.ts'
import { GatewayError } from '../errors.ts'
import type { HttpSettings, ListenOptions } from '../options.ts'
import { listenOn, type Listening } from '../http/listening.ts'
import { nodeListener, type NodeListenerOptions } from '../http/node-listener.ts'

/** A gateway that listens on one address. */
export interface GatewayListener extends AsyncDisposable {
  readonly host: string
  /** The port in use, also where 0 was given. */
  readonly port: number
  /** URL of the MCP endpoint. */
  readonly url: string
  /** Stops listening on this address. The gateway goes on. */
  close(): Promise<void>
}

export interface GatewayListenersOptions extends NodeListenerOptions {
  readonly auth: Authenticator | undefined
  /** Defaults for `listen()`. */
  readonly http: Pick<HttpSettings, 'host' | 'port' | 'writeTimeoutMs' | 'insecure'>
  /** Path of the MCP endpoint. */
  readonly path: string
  /** Is called for errors of a server that listens. */
  readonly onError: (error: Error) => void
}

/** Servers of one gateway. Each can be closed alone, or all of them together. */
export class GatewayListeners {
  readonly #options: GatewayListenersOptions
  /** With the origin that clients can use, where there is one. */
  readonly #listenings = new Map<Listening, { readonly origin: string | undefined }>()
  #isStopped = false

  constructor(options: GatewayListenersOptions) {
    this.#options = options
  }

  /** An origin at which clients reach this process, such as `http://127.0.0.1:8000`, if it listens on one. */
  get origin(): string | undefined {
    for (const { origin } of this.#listenings.values()) if (origin !== undefined) return origin
    return undefined
  }

  /** @throws GatewayError `CONFIG`, `CLOSED` after `stop()`, `LISTEN` with the cause */
  async listen(place: ListenOptions = {}): Promise<GatewayListener> {
    const { auth, http, path, onError, ...options } = this.#options
    const { host = http.host, port = http.port, insecure = http.insecure } = place
    checkAuthFits({ auth, transport: { type: 'http', host }, isInsecureAllowed: insecure })
    if (this.#isStopped) throw closed()
    const { writeTimeoutMs } = http
    const listening = await listenOn(
      { host, port, writeTimeoutMs },
      nodeListener({ ...options, onError }),
      onError,
    )
    // `stop()` may have been called meanwhile, without this server.
    if (this.#isStopped) {
      await listening.close()
      throw closed()
    }
    const close = async (): Promise<void> => {
      this.#listenings.delete(listening)
      await listening.close()
    }
    const origin = `http://${isBareIpv6(host) ? `[${host}]` : host}:${listening.port}`
    this.#listenings.set(listening, { origin: isAnyAddress(host) ? undefined : origin })
    return {
      host,
      port: listening.port,
      url: `${origin}${path}`,
      close,
      [Symbol.asyncDispose]: close,
    }
  }

  /** Accepts no more connections. Connections in use may go on. */
  stop(): void {
    this.#isStopped = true
    for (const listening of this.#listenings.keys()) listening.stop()
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    this.stop()
    await Promise.all([...this.#listenings.keys()].map((listening) => listening.close()))
  }
}

function closed(): GatewayError {
  return new GatewayError('CLOSED', 'The gateway was closed')
}

function isBareIpv6(host: string): boolean {
  return host.includes(':') && !host.startsWith('[')
}

/** Servers can listen on `0.0.0.0`, but clients cannot connect to it. */
function isAnyAddress(host: string): boolean {
  return ['0.0.0.0', '::', '[::]', ''].includes(host)
}
