import type { JsonRpcMessage, JsonRpcResponse } from '../src/index.ts'
import type { SendOptions } from '../src/transport-options.ts'
import { SessionInfo, StreamableHttpTransport, TransportError } from '../src/index.ts'
import type { StreamableHttpTransportOptions } from '../src/index.ts'
import { URL_OF_SERVER } from './scripted-server.ts'
import type { ScriptedServer } from './scripted-server.ts'

/** A minimal client that records the messages and events of a transport. */
export class RawClient implements AsyncDisposable {
  readonly transport: StreamableHttpTransport
  /** All messages that `onmessage` got. */
  readonly messages: JsonRpcMessage[] = []
  readonly errors: Error[] = []
  closed = 0
  #nextId = 0
  readonly #waiting = new Map<number, (response: JsonRpcResponse) => void>()
  readonly #watchers = new Set<() => void>()

  constructor(transport: StreamableHttpTransport) {
    this.transport = transport
    transport.onmessage = (message) => {
      this.messages.push(message)
      if (!('method' in message)) this.#waiting.get(Number(message.id))?.(message)
      for (const watcher of this.#watchers) watcher()
    }
    transport.onerror = (error) => {
      this.errors.push(error)
      for (const watcher of this.#watchers) watcher()
    }
    transport.onclose = () => {
      this.closed += 1
    }
  }

  /** Resolves with the answer, also if it is an error. */
  async request(
    method: string,
    params?: Record<string, unknown>,
    options?: SendOptions,
  ): Promise<JsonRpcResponse> {
    const id = this.#nextId++
    const answer = new Promise<JsonRpcResponse>((resolve) => this.#waiting.set(id, resolve))
    await this.transport.send(
      { jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) },
      options,
    )
    return answer
  }

  /** Resolves with the error in an answer. */
  async failureOf(...request: Parameters<RawClient['request']>): Promise<TransportError> {
    return failureIn(await this.request(...request))
  }

  notify(method: string, params?: Record<string, unknown>): Promise<void> {
    return this.transport.send({
      jsonrpc: '2.0',
      method,
      ...(params === undefined ? {} : { params }),
    })
  }

  async handshake(capabilities: Record<string, unknown> = {}): Promise<JsonRpcResponse> {
    await this.transport.start()
    const answer = await this.request('initialize', {
      protocolVersion: '2025-11-25',
      capabilities,
      clientInfo: { name: 'raw', version: '1' },
    })
    if ('result' in answer) await this.notify('notifications/initialized')
    return answer
  }

  /** Resolves when the condition holds. It is checked after each message and event. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const watcher = (): void => {
        if (!condition()) return
        this.#watchers.delete(watcher)
        resolve()
      }
      this.#watchers.add(watcher)
      watcher()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.transport.close()
  }
}

/** A client of a server in this process, which has sessions, or of a server with a URL. */
export function rawClient(
  server: ScriptedServer | string,
  options: StreamableHttpTransportOptions = {},
): RawClient {
  if (typeof server === 'string') return new RawClient(new StreamableHttpTransport(server, options))
  const { dispatcher } = server
  return rawClient(URL_OF_SERVER, { dispatcher, era: 'legacy', ...options })
}

/** A client after its handshake. */
export async function connectRaw(...given: Parameters<typeof rawClient>): Promise<RawClient> {
  const client = rawClient(...given)
  await client.handshake()
  return client
}

/** The store with the session that an earlier client has opened. */
export async function openedBefore(server: ScriptedServer): Promise<SessionInfo> {
  const sessionInfo = new SessionInfo()
  await using _ = await connectRaw(server, { sessionInfo, listen: false })
  return sessionInfo
}

/** The `TransportError` in an error answer. */
export function failureIn(answer: JsonRpcResponse): TransportError {
  const data = 'error' in answer ? answer.error.data : undefined
  if (TransportError.is(data)) return data
  throw new Error(`Not a failure of the transport: ${JSON.stringify(answer)}`)
}
