import type { Contender, Notification, Request } from './contender.ts'
import { isObject, PROTOCOL_VERSION } from './messages.ts'

/** The calls that a transport for the SDK's `Client` has, as far as they are measured. */
export interface MeasuredTransport {
  onmessage?: ((message: never) => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  start(): Promise<void>
  send(message: Message): Promise<void>
  close(): Promise<void>
  setProtocolVersion?: ((version: string) => void) | undefined
}

interface Message {
  readonly jsonrpc: '2.0'
  readonly id?: number
  readonly method: string
  readonly params?: Record<string, unknown>
}

/** A transport with a bare `onmessage`, which costs next to nothing. */
export class TransportContender implements Contender {
  readonly #transport: MeasuredTransport
  /**
   * In flight: a few. Not a Map: V8 keeps what was in an outgrown table of one until the next full
   * collection, and that would be counted as a cost of the transport.
   */
  readonly #calls: Call[] = []

  constructor(transport: MeasuredTransport) {
    this.#transport = transport
  }

  async open(): Promise<void> {
    const transport = this.#transport
    transport.onmessage = (message: unknown) => this.#received(message)
    transport.onerror = (error) => {
      for (const call of this.#calls) call.reject(error)
    }
    await transport.start()
    const clientInfo = { name: 'bench', version: '1.0.0' }
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo }
    await this.#send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
    transport.setProtocolVersion?.(PROTOCOL_VERSION)
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  }

  call(request: Request, onMessage?: (message: unknown) => void): Promise<unknown> {
    return this.#send(request, onMessage)
  }

  notify(notification: Notification): Promise<void> {
    return this.#transport.send(notification)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport.close()
  }

  #send(
    message: Message & { readonly id: number },
    onMessage: (message: unknown) => void = () => {},
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#calls.push({ id: message.id, resolve, reject, onMessage })
      this.#transport.send(message).catch(reject)
    })
  }

  #received(message: unknown): void {
    if (isObject(message) && typeof message['id'] === 'number') {
      const { id } = message
      const index = this.#calls.findIndex((call) => call.id === id)
      if (index === -1) return
      const [call] = this.#calls.splice(index, 1)
      call?.resolve(message)
    } else {
      for (const call of this.#calls) call.onMessage(message) // there is one then
    }
  }
}

interface Call {
  readonly id: number
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
  readonly onMessage: (message: unknown) => void
}
