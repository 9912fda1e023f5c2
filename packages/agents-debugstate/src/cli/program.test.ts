import { temporaryFolder } from '@x/internal/testing'
import { describe, expect, test } from 'vitest'
import { debugState, runDebugState } from '../../test/run-debugstate.ts'
import { createDebugStateServer } from '../server/create-debug-state-server.ts'
import { MemoryDebugStateStore } from '../server/memory-debug-state-store.ts'

test.each([
  [['--help'], /Usage: debugstate [^]*serve/],
  [['serve', '--help'], /^Usage: debugstate serve [^]*--port[^]*--host[^]*--db[^]*--token/],
  [['--version'], /^\d+\.\d+\.\d+\S*\n$/],
])('%j prints its text', async (args, text) => {
  const { exitCode, out, err } = await debugState(args)
  expect([exitCode, err]).toEqual([0, ''])
  expect(out).toMatch(text)
  expect(out.split('\n').filter((line) => line.length > 104)).toEqual([])
})

test.each([
  [[], 'A command is missing (see debugstate --help)'],
  [['list'], "unknown command 'list' (see debugstate --help)"],
  [['serve', '--bogus'], "unknown option '--bogus' (see debugstate serve --help)"],
  [
    ['serve', '--port', '70000'],
    "'--port <n>' argument '70000' is invalid. It must be a whole number from 0 to 65535.",
  ],
  [['serve', '--db', 'http://user:secret@host'], '--db must be a file, redis://host:port'],
])('the command line %j ends with exit code 2 and one line', async (args, message) => {
  const { exitCode, out, err } = await debugState(args)
  expect([exitCode, out]).toEqual([2, ''])
  expect(err).toContain(message)
  expect(err).toMatch(/debugstate: .+\n$/)
  expect(err).not.toContain('secret')
})

describe('serve', () => {
  test('is not reachable from other machines without a token', async () => {
    await using folder = await temporaryFolder()
    const args = ['serve', '--db', folder.file('state.db'), '--host', '0.0.0.0']
    const { exitCode, err } = await debugState(args)
    expect(exitCode).toBe(2)
    expect(err).toContain('not on 0.0.0.0: pass `tokens`: add --token')
  })

  test('prints its address, serves those who have the token, and stops with 0', async () => {
    await using folder = await temporaryFolder()
    const token = 'token-of-everybody'
    const db = folder.file('state.db')
    const run = runDebugState(['serve', '--port=0', '--db', db, '--token', token])
    await run.stdout.has('\n')
    const url = run.stdout.text.trim()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const value = `${url}/agenthub_/design/debugstate/agent/key`
    expect((await fetch(value)).status).toBe(401)
    const answer = await fetch(value, { headers: { authorization: `Bearer ${token}` } })
    expect(answer.status).toBe(404)
    run.signal('SIGTERM')
    expect(await run.exitCode).toBe(0)
    expect(run.stderr.text).not.toContain(token)
  })

  test('warns that a service without a token serves every user of the machine', async () => {
    await using folder = await temporaryFolder()
    const run = runDebugState(['serve', '--port=0'], { DEBUGSTATE_DB: folder.file('s.db') })
    await run.stdout.has('\n')
    run.signal('SIGINT')
    expect(await run.exitCode).toBe(0)
    expect(run.stderr.text).toContain('"msg":"no tokens: every user of this machine may read')
  })

  test('prints one line for a short token, a port in use, and a store that cannot be opened', async () => {
    await using folder = await temporaryFolder()
    await using server = createDebugStateServer({ store: new MemoryDebugStateStore() })
    const { port } = new URL(await server.listen())
    const db = folder.file('state.db')
    const taken = await debugState(['serve', '--db', db, '--port', port])
    expect(taken.exitCode).toBe(1)
    expect(taken.err).toContain(`127.0.0.1:${port} is in use: choose another port`)
    const short = await debugState(['serve', '--db', db, '--token', 'secret'])
    expect(short.exitCode).toBe(2)
    expect(short.err).toBe(
      'debugstate: --token cannot be used: a token has 16 to 4096 visible ASCII characters\n',
    )
    expect(short.err).not.toContain('secret')
    const bad = await debugState(['serve', '--port=0', '--db', folder.path])
    expect(bad.exitCode).toBe(1)
    expect(bad.err).toMatch(/^debugstate: .*cannot be used.*\n$/)
    const away = await debugState(['serve', '--port=0', '--db=redis://user:secret@127.0.0.1:1'])
    expect([away.exitCode, away.out]).toEqual([1, ''])
    expect(away.err).toMatch(/^debugstate: .*Redis.*\n$/)
    expect(away.err).not.toContain('secret')
  })
})
