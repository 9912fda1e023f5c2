import { expect, test } from 'vitest'

import { ArtifactLinks } from '../src/files/links.ts'
import { newScopeId } from '../src/files/scopes.ts'
import { systemClock } from '../src/internal/clock.ts'
import { SignedCursors } from '../src/internal/signing.ts'
import { RequestStates } from '../src/runs/request-state.ts'

const key = new Uint8Array(32).fill(7)
const binding = { method: 'tools/call', principal: 'ada' }

function signers(): {
  readonly states: RequestStates
  readonly cursors: SignedCursors
  readonly links: ArtifactLinks
} {
  return {
    states: new RequestStates(key, 3_600_000),
    cursors: new SignedCursors(key),
    links: new ArtifactLinks({
      key,
      baseUrl: () => 'https://files.example/artifacts',
      clock: systemClock,
    }),
  }
}

const runOf = { runId: 'run_0123456789abcdef', round: 1, tool: 'ask', args: 'x' }

test('accepts what one key signed for one use for no other use', async () => {
  const { states, cursors, links } = signers()
  const scope = newScopeId()
  const state = await states.mint(runOf, binding)
  const cursor = cursors.seal('tools', 'a')
  const link = new URL(
    links.downloadUrl({
      uri: '',
      versionUri: '',
      scope,
      name: 'a',
      version: 1,
      mimeType: 'text/plain',
      size: 1,
      sha256: '',
      runId: undefined,
      createdAt: 0,
      expiresAt: Date.now() + 60_000,
    }) ?? '',
  )
  const [exp, sig] = [link.searchParams.get('exp') ?? '', link.searchParams.get('sig') ?? '']
  const address = { scope, name: 'a', version: 1 }
  const isDownload = (signature: string): boolean =>
    links.isDownload(address, new URLSearchParams({ version: '1', exp, sig: signature }))
  expect(isDownload(sig)).toBe(true)
  expect(cursors.open('tools', cursor)).toBe('a')
  await expect(states.verify(state, binding)).resolves.toEqual(runOf)

  const signatures = [sig, cursor.split('.')[1] ?? '', state.split('.').at(-1) ?? '']
  for (const other of [signatures[1], signatures[2]]) {
    expect(isDownload(other ?? '')).toBe(false)
  }
  for (const other of [
    state,
    sig,
    ...signatures.map((each) => `${cursor.split('.')[0]}.${each}`),
  ]) {
    expect(cursors.open('prompts', other)).toBeUndefined()
  }
  for (const other of [
    cursor,
    sig,
    `v1.${cursor}`,
    `v1.${Buffer.from('{}').toString('base64url')}.${sig}`,
  ]) {
    await expect(states.verify(other, binding)).rejects.toBeInstanceOf(Error)
  }
})

test('refuses a part of a signature', async () => {
  const { states, cursors } = signers()
  const cursor = cursors.seal('tools', 'a')
  const state = await states.mint(runOf, binding)
  for (let end = 1; end < 12; end++) {
    expect(cursors.open('tools', cursor.slice(0, -end))).toBeUndefined()
    await expect(states.verify(state.slice(0, -end), binding)).rejects.toBeInstanceOf(Error)
  }
  expect(cursors.open('tools', cursor.replace(/\..*/, '.'))).toBeUndefined()
  expect(cursors.open('tools', cursor.replace(/^[^.]*/, ''))).toBeUndefined()
  expect(cursors.open('tools', `${cursor}.x`)).toBeUndefined()
})
