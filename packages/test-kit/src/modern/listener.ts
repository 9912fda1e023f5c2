import { isObject } from '../rpc-message.ts'
import type { RpcId } from '../rpc-message.ts'

/** One `subscriptions/listen` stream, as the server has it. */
export interface Listener {
  /** Id of the request, which is the id of the subscription. */
  readonly id: RpcId | undefined
  /** What the client asked for: `params.notifications`. */
  readonly requested: unknown
  /** What the server promised in its acknowledgement. */
  readonly acknowledged: unknown
  /** Number of the TCP connection it is on. */
  readonly connection: number
  readonly isOpen: boolean
}

/** The honoured filter in the first frames of a listen stream; `undefined` when it is not there. */
export function acknowledgedFrom(frames: string): unknown {
  for (const [, data = ''] of frames.matchAll(/^data: (.*)$/gm)) {
    const message: unknown = JSON.parse(data)
    if (!isObject(message) || !isObject(message['params'])) continue
    if (message['method'] === 'notifications/subscriptions/acknowledged') {
      return message['params']['notifications']
    }
  }
  return undefined
}
