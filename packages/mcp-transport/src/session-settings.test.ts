import { expect, test, vi } from 'vitest'
import type { Answer, InputRequest } from './json-rpc.ts'
import { SessionSettings } from './session-settings.ts'
import { TransportError } from './transport-error.ts'

const done: Answer = { result: {} }
const refused: Answer = { error: { code: -32_602, message: 'no such resource' } }
const level = (name: string): InputRequest => ({
  method: 'logging/setLevel',
  params: { level: name },
})
const on = (uri: string): InputRequest => ({ method: 'resources/subscribe', params: { uri } })
const off = (uri: string): InputRequest => ({ method: 'resources/unsubscribe', params: { uri } })

/** The settings of a client that has sent these requests. */
function settingsAfter(...sent: (readonly [InputRequest, Answer | TransportError])[]) {
  const settings = new SessionSettings()
  for (const [request, outcome] of sent) settings.watch(request, () => {})(outcome)
  return settings
}

async function restoredBy(settings: SessionSettings): Promise<InputRequest[]> {
  const send = vi.fn<(request: InputRequest) => Promise<Answer>>(async () => done)
  expect(await settings.restore(send)).toBeUndefined()
  return send.mock.calls.map(([request]) => request)
}

test('restores the last log level and the subscriptions that the server has accepted', async () => {
  const settings = settingsAfter(
    [level('debug'), done],
    [on('a://b'), done],
    [on('c://d'), refused],
    [on('e://f'), new TransportError('SESSION_LOST', 'lost', { certain: true })],
    [{ method: 'resources/read', params: { uri: 'g://h' } }, done],
    [level('error'), done],
  )
  expect(await restoredBy(settings)).toEqual([level('error'), on('a://b')])
})

test('does not restore a subscription that the client has asked to end, whatever the server answers', async () => {
  const lost = new TransportError('SESSION_LOST', 'lost', { certain: true })
  expect(await restoredBy(settingsAfter([on('a://b'), done], [off('a://b'), lost]))).toEqual([])
})

test('does not restore a subscription that was answered after the client had asked to end it', async () => {
  const settings = new SessionSettings()
  const begun = settings.watch(on('a://b'), () => {})
  const ended = settings.watch(off('a://b'), () => {})
  begun(done)
  ended(done)
  expect(await restoredBy(settings)).toEqual([])
})

test('restores a subscription that was asked for after the end of an earlier one, whatever is answered first', async () => {
  const settings = settingsAfter([on('a://b'), done])
  const ended = settings.watch(off('a://b'), () => {})
  settings.watch(on('a://b'), () => {})(done)
  ended(done)
  expect(await restoredBy(settings)).toEqual([on('a://b')])
})

test('does not restore a subscription that is answered after its end was refused', async () => {
  const settings = new SessionSettings()
  const begun = settings.watch(on('a://b'), () => {})
  settings.watch(off('a://b'), () => {})(refused)
  begun(done)
  expect(await restoredBy(settings)).toEqual([])
})

test('passes each outcome to the caller', () => {
  const settings = new SessionSettings()
  for (const request of [level('error'), on('a://b'), off('a://b'), { method: 'ping' }]) {
    const onSettled = vi.fn<(outcome: Answer | TransportError) => void>()
    settings.watch(request, onSettled)(done)
    expect(onSettled).toHaveBeenCalledExactlyOnceWith(done)
  }
})

test('returns the loss of the session before other failures, and otherwise what the server says', async () => {
  const settings = settingsAfter([level('error'), done], [on('a://b'), done])
  const lost = new TransportError('SESSION_LOST', 'lost', { certain: true })
  const failed = await settings.restore(async ({ method }) =>
    method === 'logging/setLevel' ? refused : lost,
  )
  expect(failed).toMatchObject({ code: 'SESSION_LOST', certain: true })
  expect(await settings.restore(async () => refused)).toMatchObject({
    code: 'REJECTED',
    message: expect.stringContaining('no such resource'),
  })
})
