import { isObject } from '../rpc-message.ts'

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
