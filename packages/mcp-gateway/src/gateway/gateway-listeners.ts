import type { Authenticator } from '../http/auth/authenticator.ts'
import { checkAuthFits } from '../http/auth/auth-fit.ts'
import { GatewayError } from '../errors.ts'
import type { GatewayListener, ListenOptions } from './gateway-listener.ts'
import type { HttpSettings } from '../options.ts'
import { listenOn, type Listening } from '../http/listening.ts'
import { nodeListener, type NodeListenerOptions } from '../http/node-listener.ts'

export interface GatewayListenersOptions extends NodeListenerOptions {
  readonly auth: Authenticator | undefined
  /** Where to listen, unless told otherwise. */
  readonly http: Pick<HttpSettings, 'host' | 'port' | 'writeTimeoutMs' | 'insecure'>
  /** Of the MCP endpoint. */
  readonly path: string
  /** Told what a server says of itself once it listens. */
  readonly onError: (error: Error) => void
}

/** All places where one gateway listens by itself: each can be closed alone, and all of them together. */
export class GatewayListeners {
  readonly #options: GatewayListenersOptions
  /** With the origin that clients can be told. */
  readonly #listenings = new Map<Listening, { readonly origin: string | undefined }>()
  #isStopped = false

  constructor(options: GatewayListenersOptions) {
    this.#options = options
  }

  /**
   * Where this process listens itself, if it does at an address that clients can be told:
   * `http://127.0.0.1:8000`.
   */
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
    // The gateway may have been closed meanwhile, and does not know of this one.
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

  /** Takes no more connections; those that are in use may go on. */
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

/** `0.0.0.0` is where to listen, and nowhere to go. */
function isAnyAddress(host: string): boolean {
  return ['0.0.0.0', '::', '[::]', ''].includes(host)
}
