import { temporaryFolder } from '@x/internal/testing'
import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { FileSessionInfo, SessionInfo, ToolListRecord } from '../src/index.ts'
import type { StoredTools } from '../src/index.ts'
import { connectRaw } from './raw-client.ts'

const url = 'https://shop.example/mcp?tenant=a'

const list: StoredTools = {
  tools: [{ name: 'pay', inputSchema: { type: 'object' } }],
  leftOut: [{ name: 'odd', reason: 'its schema is invalid' }],
  readAt: '2026-11-20T10:00:00.000Z',
  ttlMs: 300_000,
}

interface Owner {
  readonly url?: string
  readonly principal?: string
}

function recordIn(
  info: SessionInfo,
  owner: Owner = {},
): { readonly record: ToolListRecord; readonly errors: Error[] } {
  const errors: Error[] = []
  const report = (error: Error): void => void errors.push(error)
  const record = new ToolListRecord({ info, url, principal: undefined, report, ...owner })
  return { record, errors }
}

test('finds in a file what another process has stored, without a session', async () => {
  await using folder = await temporaryFolder()
  const path = folder.file('list.json')
  expect(await recordIn(new FileSessionInfo(path)).record.read()).toBeUndefined()
  expect(await recordIn(new FileSessionInfo(path)).record.write(list, 'modern')).toBe(true)
  expect(await recordIn(new FileSessionInfo(path)).record.read()).toEqual(list)
  const stored = await new FileSessionInfo(path).getRecord()
  expect(stored).toMatchObject({ era: 'modern', epoch: 0, tools: list })
  expect(stored).not.toHaveProperty('sessionId')
  expect(JSON.stringify(stored)).not.toContain('tenant')
})

test.each([
  ['another URL', { url: 'https://shop.example/other' }],
  ['another query', { url: 'https://shop.example/mcp?tenant=b' }],
  ['another principal', { principal: 'bob' }],
])('does not use the list of %s, and takes its place', async (_what, owner) => {
  const info = new SessionInfo()
  await recordIn(info).record.write(list, 'legacy')
  const other = recordIn(info, owner).record
  expect(await other.read()).toBeUndefined()
  await other.write({ ...list, tools: [] }, 'legacy')
  expect(await other.read()).toEqual({ ...list, tools: [] })
  expect(await recordIn(info).record.read()).toBeUndefined()
})

test('removes a list, and waits until the store has done so', async () => {
  const info = new SessionInfo()
  const flush = vi.spyOn(info, 'flush')
  const setRecord = vi.spyOn(info, 'setRecord')
  const { record } = recordIn(info)
  await record.write(undefined, 'legacy') // there is none
  expect(setRecord).not.toHaveBeenCalled()
  await record.write(list, 'legacy')
  expect(flush).not.toHaveBeenCalled()
  await record.write(undefined, 'legacy')
  expect(flush).toHaveBeenCalledTimes(1)
  expect(await record.read()).toBeUndefined()
})

test('stores at most 256 KiB, and removes the list before a longer one', async () => {
  const info = new SessionInfo()
  const { record } = recordIn(info)
  const ofLength = (characters: number): StoredTools => ({
    ...list,
    tools: [{ name: 'pay', description: 'é'.repeat(characters) }],
  })
  expect(await record.write(ofLength(130_000), 'legacy')).toBe(true)
  expect(await record.write(ofLength(131_072), 'legacy')).toBe(false)
  expect(await record.read()).toBeUndefined()
})

describe('in the store of a session', () => {
  test('keeps the session, which can be continued, and is lost with it', async () => {
    await using server = await startLegacyServer()
    const sessionInfo = new SessionInfo()
    const first = await connectRaw(server.url, { sessionInfo })
    const { record } = recordIn(sessionInfo, { url: server.url })
    await record.write(list, 'legacy')
    await first.transport.close()

    const next = await connectRaw(server.url, { sessionInfo })
    expect(next.transport).toMatchObject({ isResumed: true, epoch: 1 })
    expect(await record.read()).toEqual(list)
    server.forgetSessions()
    await next.request('ping')
    expect(await record.read()).toBeUndefined()
    await next.transport.close()
  })

  test.each([
    ['has a session without a record', { getSessionId: async () => 'theirs' }],
    ['cannot be read', { getRecord: () => Promise.reject(new Error('disk')) }],
    ['cannot be read again', { refresh: () => Promise.reject(new Error('disk')) }],
  ])('writes nothing if the store %s', async (_what, members) => {
    const info = Object.assign(new SessionInfo(), members)
    const setRecord = vi.spyOn(info, 'setRecord')
    await recordIn(info).record.write(list, 'legacy')
    expect(setRecord).not.toHaveBeenCalled()
  })
})

test('counts a store that fails as empty, and reports it', async () => {
  const failing = (): Promise<never> => Promise.reject(new Error('disk full'))
  const info = Object.assign(new SessionInfo(), { getRecord: failing })
  const { record, errors } = recordIn(info)
  expect(await record.read()).toBeUndefined()
  expect(errors).toMatchObject([{ code: 'RECORD_UNUSABLE', cause: { message: 'disk full' } }])
})

test('refuses a URL with credentials', () => {
  const refused = (): unknown => recordIn(new SessionInfo(), { url: 'https://a:b@shop.example' })
  expect(refused).toThrow(TypeError)
})
