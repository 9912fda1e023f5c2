import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

import { configFolder, YAML } from '../../test/config-folder.ts'

const LOUD = `import { execFileSync } from 'node:child_process'
import { writeSync } from 'node:fs'
console.log('loading')
export const graph = {
  channels: { messages: {} },
  async stream() {
    console.info('thinking %s', 'hard')
    process.stdout.write('written\\n')
    writeSync(DESCRIPTOR, 'by descriptor\\n')
    execFileSync(process.execPath, ['-e', 'console.log("by a child")'], { stdio: CHILD })
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content: 'Hello' }] }]
    })()
  },
}`

/** Serves the graph from code. Only the writes of this process are in the hands of the library. */
const PROGRAM = `import { createGateway } from '${new URL('../index.ts', import.meta.url).href}'
import { graph } from './graph.mjs'
const gateway = createGateway({ agents: { loud: { graph, description: 'Loud' } } })
await gateway.serveStdio().closed
await gateway.close()
process.stdout.write('{"after":"the pipe"}\\n')`

interface Talk {
  /** All lines of standard output. */
  readonly lines: readonly string[]
  /** Standard error. */
  readonly said: string
  readonly end: readonly [code: number | null, signal: string | null]
}

/** Starts a server on a pipe, calls its tool, and ends its input. */
async function talk(args: readonly string[]): Promise<Talk> {
  const child = spawn(sourceNode, ['--conditions=mcp-source', ...args])
  const said = text(child.stderr)
  const closed = once(child, 'close')
  const lines: string[] = []
  const output = createInterface({ input: child.stdout })
  const ask = async (id: number, method: string, params: object): Promise<void> => {
    const answered = new Promise<void>((resolve) => {
      output.on('line', (line) => {
        if (line.includes(`"id":${id}`)) resolve()
      })
    })
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    await answered
  }
  output.on('line', (line) => lines.push(line))
  const clientInfo = { name: 'test', version: '1.0.0' }
  await ask(0, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
  await ask(1, 'tools/call', { name: 'loud', arguments: { message: 'Hi' } })
  child.stdin.end()
  const [code, signal] = (await closed) as [number | null, string | null]
  return { lines, said: await said, end: [code, signal] }
}

const RESULT = { id: 1, result: { content: [{ type: 'text', text: 'Hello' }] } }

test('the command keeps all that graphs write out of the protocol on standard output', async () => {
  await using folder = await configFolder()
  await folder.graphs('loud')
  await folder.file('graph.mjs', LOUD.replace('DESCRIPTOR', '1').replace('CHILD', "'inherit'"))
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const { lines, said, end } = await talk([main, await folder.file('g.yaml', YAML), '--stdio'])
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ id: 0 }, RESULT])
  for (const line of ['loading', 'thinking hard', 'written', 'by descriptor', 'by a child']) {
    expect(said.split('\n')).toContain(line)
  }
  expect(end).toEqual([0, null])
})

test('a program that serves a pipe keeps the writes of its process out of the protocol', async () => {
  await using folder = await configFolder()
  await folder.file(
    'graph.mjs',
    LOUD.replace('DESCRIPTOR', '2').replace('CHILD', "['ignore', 2, 2]"),
  )
  const { lines, said } = await talk([await folder.file('program.mjs', PROGRAM)])
  const [first, ...others] = lines
  expect(first).toBe('loading') // before the pipe was opened
  expect(others.map((line) => JSON.parse(line))).toMatchObject([
    { id: 0 },
    RESULT,
    { after: 'the pipe' },
  ])
  for (const line of ['thinking hard', 'written']) expect(said.split('\n')).toContain(line)
})

/** Starts a program, and ends its input. @returns its standard output and its exit code */
async function endOf(args: readonly string[]): Promise<readonly [said: string, code: unknown]> {
  const child = spawn(sourceNode, ['--conditions=mcp-source', ...args])
  child.stdin.end()
  child.stderr.resume()
  const said = text(child.stdout)
  const [code] = await once(child, 'close')
  return [await said, code]
}

test.each([
  ['check', /\n1 tool\n/],
  ['--stdio', /^$/],
])('ends the command with 0, without a drain delay, after %s', async (argument, output) => {
  await using folder = await configFolder()
  await folder.graphs('loud')
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const file = await folder.file('g.yaml', `${YAML}http: { drainDelayMs: 3600000 }\n`)
  const [said, code] = await endOf([
    main,
    ...(argument === 'check' ? ['check', file] : [file, argument]),
  ])
  expect(said).toMatch(output)
  expect(code).toBe(0)
})

test.each([
  [
    'the drain delay of a mounted gateway',
    'http: { drainDelayMs: 20 }',
    "await gateway.fetch(new Request('http://localhost/readyz'))",
  ],
  ['a call that does not end', 'http: { shutdownGraceMs: 20 }', 'void call(); await begun.promise'],
  [
    'a request whose credential is still checked',
    'auth: { authenticate: () => new Promise(begun.resolve) }',
    'void call(); await begun.promise',
  ],
])('waits for %s when a program closes it', async (_, setting, use) => {
  await using folder = await configFolder()
  const program = await folder.file(
    'program.mjs',
    `import { createGateway } from '${new URL('../index.ts', import.meta.url).href}'
const begun = Promise.withResolvers()
const stream = () => {
  begun.resolve()
  return new Promise(() => {})
}
const graph = { channels: { messages: {} }, stream }
const gateway = createGateway({
  agents: { still: { graph, description: 'Never answers' } },
  ${setting},
  log: false,
})
async function call() {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'still',
  }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const params = { name: 'still', arguments: { message: 'Hi' }, _meta }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  await gateway.fetch(new Request('http://localhost/mcp', { method: 'POST', headers, body }))
}
await gateway.registry.start()
${use}
await gateway.close()
console.log('closed')`,
  )
  expect(await endOf([program])).toEqual(['closed\n', 0])
})

test('ends with its signal when the command on a pipe is told to stop', async () => {
  await using folder = await configFolder()
  await folder.graphs('loud')
  await folder.file('graph.mjs', LOUD)
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const file = await folder.file('g.yaml', YAML)
  const child = spawn(sourceNode, ['--conditions=mcp-source', main, file, '--stdio'])
  const closed = once(child, 'close') // of the pipes, which a process that stays would keep open
  child.stderr.resume()
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 't', version: '1' },
  }
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params })}\n`)
  await answers.next()
  child.kill('SIGTERM')
  await expect(closed).resolves.toEqual([0, null])
})
