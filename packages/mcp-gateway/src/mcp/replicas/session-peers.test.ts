import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { ManualClock, settled } from '../../../test/manual-clock.ts'
import { SessionPeers } from './session-peers.ts'

test('where it is closed before a question is out, whoever asked is told, and nobody else', async () => {
  const sent = deferred()
  const peers = new SessionPeers({
    messages: {
      publish: async () => sent.promise,
      subscribe: async () => () => undefined,
    },
    replica: 'a',
    clock: new ManualClock(),
    answerMs: 1000,
    onSignal: () => undefined,
    onGap: () => undefined,
    onError: () => undefined,
  })
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  const asking = peers.ask('session', 'b', { type: 'listen' })
  await settled()
  await peers.close()
  await settled()
  sent.resolve()
  await expect(asking).rejects.toMatchObject({ code: 'CLOSED' })
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})
