import type { Listener } from '../listener.ts'
import type { ReceivedRequest } from '../received-request.ts'
import type { RpcId } from '../rpc-message.ts'
import type { OpenResponse } from './open-response.ts'
import { frameOf } from './scripted-answer.ts'

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** A `subscriptions/listen` stream in the hands of the test. What is sent to a closed one is lost. */
export class ScriptedListener implements Listener {
  readonly id: RpcId | undefined
  readonly requested: unknown
  readonly connection: number
  readonly #response: OpenResponse
  #acknowledged: unknown

  constructor(received: ReceivedRequest, response: OpenResponse) {
    this.id = received.rpcId
    this.requested = received.params?.['notifications']
    this.connection = received.connection
    this.#response = response
    response.raw.writeHead(200, { 'content-type': 'text/event-stream' })
    response.raw.flushHeaders()
  }

  get acknowledged(): unknown {
    return this.#acknowledged
  }

  get isOpen(): boolean {
    return this.#response.isOpen
  }

  /** Promises `honoured`, a subset of what was asked for as a rule. @default all of it */
  acknowledge(honoured: unknown = this.requested): void {
    this.#acknowledged = honoured
    this.notify('notifications/subscriptions/acknowledged', { notifications: honoured })
  }

  /** Sends a notification, with the id of the subscription in its `_meta`. */
  notify(method: string, params: Readonly<Record<string, unknown>> = {}): void {
    this.send(frameOf({ method, params: { ...params, _meta: { [SUBSCRIPTION_ID]: this.id } } }))
  }

  /** Writes raw text: a comment, or an event without the id of the subscription. */
  send(frame: string): void {
    if (this.isOpen) this.#response.raw.write(frame)
  }

  /** The graceful end: a result, then the end of the stream. */
  end(): void {
    if (!this.isOpen) return
    const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: this.id } }
    this.send(frameOf({ id: this.id, result }))
    this.#response.raw.end()
  }

  /** An end without a result: `eof` of the body, or a `reset` of the connection. */
  drop(how: 'eof' | 'reset' = 'reset'): void {
    if (!this.isOpen) return
    if (how === 'eof') this.#response.raw.end()
    else this.#response.reset()
  }
}
