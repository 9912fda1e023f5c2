// A client on a pipe that sends anything but the protocol.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { createGateway } from '@x/mcp-gateway'
import { isRecord } from '@x/internal'
import { sourceNode, temporaryFolder } from '@x/internal/testing'
import { AgentsAtHand } from '../../../../packages/mcp-gateway/test/agents-at-hand.ts'
import { HANDSHAKE, modernParts } from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import { jsonOf, type Json } from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { BEHAVIOURS } from '../target.ts'

const line = (message: unknown): string => `${JSON.stringify(message)}\n`
const request = (id: unknown, method: string, params: unknown = {}): string =>
  line({ jsonrpc: '2.0', id, method, params })
const HELLO = request(0, 'initialize', HANDSHAKE)
const CALL = { name: 'echo', arguments: { message: 'honest' } }

/** Bytes on the pipe. The client goes on after them. */
const GARBAGE: Readonly<Record<string, string | Uint8Array>> = {
  'an empty line': '\n',
  'a thousand empty lines': '\n'.repeat(1000),
  'lines of Windows': '\r\n\r\n',
  'plain text': 'hello\n',
  'HTTP instead of JSON': 'GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'framing of the language server protocol': 'Content-Length: 2\r\n\r\n{}\n',
  'half of a message': '{"jsonrpc":"2.0","id":1,\n',
  'a number': '42\n',
  null: 'null\n',
  'a list': '[]\n',
  'a batch': `[${request(1, 'ping').trim()}]\n`,
  'an object': '{}\n',
  'JSON-RPC 1.0': '{"id":1,"method":"ping","params":[]}\n',
  'an id that is null': request(null, 'ping'),
  'an id that is an object': request({ a: 1 }, 'ping'),
  'params that are a list': request(1, 'ping', []),
  'a method that is a number': '{"jsonrpc":"2.0","id":1,"method":1}\n',
  'the member __proto__':
    '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":{"polluted":1}}}\n',
  'binary data': Uint8Array.from({ length: 4096 }, (_, n) => (n * 7) % 256),
  'binary data with line breaks': Uint8Array.from({ length: 4096 }, (_, n) =>
    n % 16 === 0 ? 10 : (n * 13) % 256,
  ),
  'text that is no UTF-8': Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0xc0, 0x80, 0x22, 0x7d, 0x0a]),
  'UTF-16': Buffer.from(request(1, 'ping'), 'utf16le'),
  'a byte order mark': `\ufeff${request(1, 'ping')}`,
  NUL: `\u0000\u0000${request(1, 'ping')}`,
  'colors of a terminal': '\u001b[31mred\u001b[0m\n',
  '100,000 levels': `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}}\n`,
  '100,000 open brackets': `${'['.repeat(100_000)}\n`,
  'a line of 2 MB': `"${'x'.repeat(2_000_000)}"\n`,
  'an unknown response': line({ jsonrpc: '2.0', id: 99, result: {} }),
  'an unknown error': line({ jsonrpc: '2.0', id: 'x', error: { code: 1, message: 'x' } }),
  'a response with both': line({
    jsonrpc: '2.0',
    id: 1,
    result: {},
    error: { code: 1, message: 'x' },
  }),
  'a thousand notifications that nobody knows': line({
    jsonrpc: '2.0',
    method: 'notifications/x',
  }).repeat(1000),
  'the cancellation of nothing': line({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 12345 },
  }),
  'a cancellation without an id': line({ jsonrpc: '2.0', method: 'notifications/cancelled' }),
  'a second handshake': HELLO,
  'a revision that does not exist': request(1, 'tools/list', {
    _meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' },
  }),
  'a revision that is an object': request(1, 'tools/list', {
    _meta: { 'io.modelcontextprotocol/protocolVersion': {} },
  }),
  'a tool with a line break': request(1, 'tools/call', { name: 'a\nb', arguments: {} }),
  'a modern tool with a line break': line({
    ...modernParts('tools/call', { name: 'a', arguments: {} }).message,
    params: {
      name: 'a\r\nx: y',
      _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
    },
  }),
  'two messages on one line': request(1, 'ping').trim() + request(2, 'ping'),
}

interface Talk {
  /** All lines on standard output. */
  readonly lines: readonly string[]
  readonly errors: readonly string[]
}

/** A gateway on a pipe in this process. */
async function talk(
  garbage: string | Uint8Array,
  isEarly: boolean,
): Promise<Talk & { readonly isServed: boolean }> {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const errors: string[] = []
  const write = (...text: readonly unknown[]): void => void errors.push(String(text))
  const gateway = createGateway({
    sources: [new AgentsAtHand(BEHAVIOURS)],
    log: { warn: write, error: write },
  })
  const pipe = gateway.serveStdio({ input, output })
  const lines: string[] = []
  const answered = new Promise<boolean>((resolve) => {
    createInterface({ input: output }).on('line', (text) => {
      lines.push(text)
      const message = jsonOf(text)
      if (isRecord(message) && message['id'] === 'honest') resolve(text.includes('honest"}'))
    })
    void pipe.closed.then(() => resolve(false))
  })
  if (!isEarly) input.write(HELLO)
  input.write(garbage)
  input.write('\n')
  if (isEarly) input.write(HELLO)
  input.write(request('honest', 'tools/call', CALL))
  const isServed = await answered
  await pipe.close()
  await gateway.close()
  return { lines, errors, isServed }
}

const isMessage = (text: string): boolean => {
  const message = jsonOf(text)
  return isRecord(message) && message['jsonrpc'] === '2.0'
}

const GRAPH = `import { writeSync } from 'node:fs'
console.log('loading')
process.stdout.write('{"jsonrpc":"2.0","id":"forged","result":{}}\\n')
export const graph = {
  channels: { messages: {} },
  async stream(input) {
    console.log('{"jsonrpc":"2.0","id":"forged","result":{}}')
    writeSync(1, '{"jsonrpc":"2.0","id":"forged","result":{}}\\n')
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content: 'honest' }] }]
    })()
  },
}`

/** The command in a process of its own. @returns the lines of its standard output, and how it ended */
async function runCommand(
  folder: string,
  sent: readonly (string | Uint8Array)[],
): Promise<Talk & { readonly exit: unknown }> {
  const main = fileURLToPath(
    new URL('../../../../packages/mcp-gateway/src/cli/main.ts', import.meta.url),
  )
  const args = [
    '--conditions=mcp-source',
    '--no-warnings',
    main,
    `${folder}/gateway.yaml`,
    '--stdio',
  ]
  const child = spawn(sourceNode, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  const lines: string[] = []
  const errors: string[] = []
  createInterface({ input: child.stderr }).on('line', (text) => errors.push(text))
  const closed = once(child, 'close')
  const ended = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      lines.push(text)
      const message = jsonOf(text)
      if (isRecord(message) && message['id'] === 'honest') resolve()
    })
    child.once('exit', () => resolve())
  })
  child.stdin.on('error', () => undefined)
  for (const each of [
    HELLO,
    ...sent,
    '\n',
    request('honest', 'tools/call', { name: 'agent', arguments: { message: 'Hi' } }),
  ]) {
    child.stdin.write(each)
  }
  await ended
  child.stdin.end()
  const exit: unknown = await closed
  return { lines, errors, exit }
}

async function commandProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const folder = stack.use(await temporaryFolder())
  await writeFile(folder.file('graph.mjs'), GRAPH)
  await writeFile(
    folder.file('langgraph.json'),
    JSON.stringify({ graphs: { agent: './graph.mjs:graph' } }),
  )
  await writeFile(
    folder.file('gateway.yaml'),
    'sources:\n  - { type: langgraph, config: ./langgraph.json }\n',
  )
  const all = Object.entries(GARBAGE).filter(
    ([name]) => name !== 'binary data' && name !== 'a second handshake',
  )
  return [
    probe(
      'the command with all of it, and a graph that writes messages to standard output',
      async () => {
        const { lines, errors, exit } = await runCommand(
          folder.path,
          all.map(([, bytes]) => bytes),
        )
        const strange = lines.filter((text) => !isMessage(text) || text.includes('forged'))
        return {
          strange,
          served: lines.filter((text) => text.includes('"honest"}')).length,
          exit,
          errors: errors.slice(-3),
        }
      },
      ({ strange, served, exit }) => strange.length === 0 && served === 1 && String(exit) === '0,',
    ),
    probe(
      'the command with a line of 12 MB: it ends, and says why',
      async () => {
        const { lines, errors, exit } = await runCommand(folder.path, [
          `"${'x'.repeat(12_000_000)}`,
        ])
        return {
          strange: lines.filter((text) => !isMessage(text)),
          said: errors.join(' ').includes('too long'),
          exit,
        }
      },
      ({ strange, said }) => strange.length === 0 && said,
    ),
  ]
}

/** Messages of one client in an order that no client has. */
const ORDERS: Readonly<Record<string, readonly string[]>> = {
  'a call before the handshake': [request('honest', 'tools/call', CALL)],
  'the same id twice at once': [
    HELLO,
    request(7, 'tools/call', { name: 'pay', arguments: { message: 'x' } }),
    request(7, 'tools/call', { name: 'pay', arguments: { message: 'y' } }),
    request('honest', 'tools/call', CALL),
  ],
  '500 requests at once': [
    HELLO,
    ...Array.from({ length: 500 }, (_, n) => request(n + 1, 'ping')),
    request('honest', 'tools/call', CALL),
  ],
  'both protocols in turn': [
    line(modernParts('tools/list').message),
    HELLO,
    line(modernParts('tools/list').message),
    request('honest', 'tools/call', CALL),
  ],
}

export const stdio: Kind = {
  name: 'stdio',
  rule: 'only the protocol is on standard output, and the client goes on after garbage',
  async prepare(stack) {
    const served = (name: string, send: () => ReturnType<typeof talk>): Probe =>
      probe(
        name,
        send,
        ({ isServed, lines, errors }) =>
          isServed &&
          lines.every(isMessage) &&
          !errors.some((text) => /unhandled|TypeError/i.test(text)) &&
          !('polluted' in ({} as Json)),
      )
    return {
      probes: [
        ...Object.entries(GARBAGE).map(([name, bytes]) =>
          served(`after the handshake: ${name}`, () => talk(bytes, false)),
        ),
        ...Object.entries(GARBAGE)
          .filter(([name]) => name !== 'a second handshake')
          .map(([name, bytes]) => served(`before the handshake: ${name}`, () => talk(bytes, true))),
        ...Object.entries(ORDERS).map(([name, messages]) =>
          served(name, () => talk(messages.join(''), false)),
        ),
        ...(await commandProbes(stack)),
      ],
      honest: [served('a client on a pipe', () => talk('', false))],
    }
  },
}
