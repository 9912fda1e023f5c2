import { expect, test } from 'vitest'
import { deferred } from '@x/mcp-testing'
import { TransportError } from '../transport-error.ts'
import { Renewals } from './authorizer.ts'
import type { Renewal } from './authorizer.ts'

const signal = new AbortController().signal

type Request = Pick<Renewal, 'refused' | 'signal'>

function credential(obtain?: (request: Request, signal: AbortSignal) => Promise<void>): {
  renewals: { renew(request: Request): Promise<void> }
  state: { token: string | undefined; obtained: number }
} {
  const state = { token: 't0' as string | undefined, obtained: 0 }
  const all = new Renewals({
    current: async () => state.token,
    obtain: async (request, given) => {
      state.obtained += 1
      await obtain?.(request, given)
      state.token = `t${state.obtained}`
    },
  })
  const rest = {
    serverUrl: new URL('https://mcp.test/mcp'),
    fetch: () => Promise.reject(new Error('No request is expected')),
    response: new Response(null, { status: 401 }),
    challenge: undefined,
    isStepUp: false,
  }
  return { renewals: { renew: (request) => all.renew({ ...rest, ...request }) }, state }
}

test('ten refusals of the same token are one renewal', async () => {
  const { renewals, state } = credential()
  await Promise.all(Array.from({ length: 10 }, () => renewals.renew({ refused: 't0', signal })))
  expect(state).toEqual({ token: 't1', obtained: 1 })
})

test('an older token needs no renewal', async () => {
  const { renewals, state } = credential()
  await renewals.renew({ refused: 'older', signal })
  expect(state.obtained).toBe(0)
})

test('the next refusal is the next renewal', async () => {
  const { renewals, state } = credential()
  await renewals.renew({ refused: 't0', signal })
  await renewals.renew({ refused: 't1', signal })
  expect(state).toEqual({ token: 't2', obtained: 2 })
})

test('a failure is told to all who waited, and the next one tries again', async () => {
  let fails = true
  const { renewals, state } = credential(async () => {
    if (fails) throw new Error('no')
  })
  const all = await Promise.allSettled(
    Array.from({ length: 3 }, () => renewals.renew({ refused: 't0', signal })),
  )
  expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(state.obtained).toBe(1)
  fails = false
  await renewals.renew({ refused: 't0', signal })
  expect(state.obtained).toBe(2)
})

test('a failure does not matter to whoever has a newer token by then', async () => {
  const { renewals, state } = credential(async () => {
    state.token = 'of another process'
    throw new Error('lost the race')
  })
  const first = renewals.renew({ refused: 't0', signal })
  const second = renewals.renew({ refused: 't0', signal })
  await Promise.all([first, second])
  expect(state.obtained).toBe(1)
})

test('one who gives up leaves the others alone', async () => {
  const go = deferred()
  const { renewals, state } = credential(() => go.promise)
  const controller = new AbortController()
  const first = renewals.renew({ refused: 't0', signal: controller.signal })
  const second = renewals.renew({ refused: 't0', signal })
  controller.abort()
  await expect(first).rejects.toMatchObject({ code: 'CLOSED' })
  go.resolve()
  await second
  expect(state.token).toBe('t1')
})

test('once all have given up, the renewal is told to stop', async () => {
  const stopped = deferred()
  const { renewals } = credential(
    (_request, given) =>
      new Promise((_resolve, reject) => {
        given.addEventListener('abort', () => {
          stopped.resolve()
          reject(new Error('stopped'))
        })
      }),
  )
  const controller = new AbortController()
  const only = renewals.renew({ refused: 't0', signal: controller.signal })
  controller.abort()
  await expect(only).rejects.toMatchObject({ code: 'CLOSED' })
  await stopped.promise
})

test('the end of the transport that started it is not the end for the others', async () => {
  let isFirst = true
  const { renewals, state } = credential(async () => {
    if (!isFirst) return
    isFirst = false
    throw new TransportError('CLOSED', 'The dispatcher of this transport was closed')
  })
  const first = renewals.renew({ refused: 't0', signal })
  const second = renewals.renew({ refused: 't0', signal })
  await expect(first).rejects.toMatchObject({ code: 'CLOSED' })
  await second
  expect(state).toEqual({ token: 't2', obtained: 2 })
})
