// An MCP server on stdio with a fault: `misbehaving-server.mjs [<fault> [<value>]]`. Plain JavaScript without
// dependencies, so that it starts fast and runs on every version of Node.
import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [fault, value] = process.argv.slice(2)
const write = (message) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const text = (id, what) => write({ id, result: { content: [{ type: 'text', text: what }] } })

if (fault === 'crash-at-start') {
  process.stderr.write(`${value ?? 'Cannot find module'}\n`)
  process.exit(3)
}
if (fault === 'garbage') {
  process.stdout.write(`${value ?? 'Listening on port 3000'}\n`)
  process.exit(0)
}
if (fault === 'ignore-end') {
  process.on('SIGTERM', () => {})
  setInterval(() => {}, 1000)
}
if (fault === 'linger') setInterval(() => {}, 1000) // exits only after a signal
if (fault === 'grandchild') {
  // Ignores SIGTERM and keeps the pipes open.
  const script =
    "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); process.stderr.write(`grandchild ${process.pid}\\n`)"
  spawn(process.execPath, ['-e', script], { stdio: 'inherit' }).unref()
}
if (fault === 'chatty') process.stdout.write('\n  \nServer starting…\n')

const tools = [
  { name: 'crash', inputSchema: { type: 'object' } },
  { name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
]
let level = 'none'
const calls = {
  level: (id) => text(id, level),
  pid: (id) => text(id, String(process.pid)),
  cwd: (id) => text(id, process.cwd()),
  env: (id) => text(id, JSON.stringify(process.env)),
  echo: (id, { line }) => text(id, line),
  meta: (id, _args, meta) => text(id, JSON.stringify(meta ?? null)),
  say: (id, { line }) => process.stderr.write(`${line}\n`, () => text(id, 'said')),
  flood: (id) => {
    const line = `${'x'.repeat(1023)}\n`.repeat(1024)
    process.stderr.write(line, () => process.stderr.write(`${line}the end\n`, () => text(id, 'ok')))
  },
  huge: (id) => text(id, 'x'.repeat(100_000)),
  crash: () => {
    process.stderr.write('Error: out of cheese\n', () => process.exit(7))
  },
  kill: () => process.kill(process.pid, 'SIGKILL'),
  hang: () => process.stderr.write('hanging\n'),
  'answer-and-exit': (id, { end = '\n' }) => {
    process.stdout.write(
      `${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'last words' }] } })}${end}`,
      () => process.exit(0),
    )
  },
  /** Writes progress and response in one chunk. */
  'progress-and-answer': (id, _args, { progressToken }) => {
    const lines = [1, 2, 3].map((progress) => {
      const params = { progressToken, progress, total: 3 }
      return { jsonrpc: '2.0', method: 'notifications/progress', params }
    })
    const result = { content: [{ type: 'text', text: 'done' }] }
    const all = [...lines, { jsonrpc: '2.0', id, result }]
    process.stdout.write(all.map((line) => `${JSON.stringify(line)}\n`).join(''))
  },
  'close-output': () => {
    closeSync(1)
    setInterval(() => {}, 1000)
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (fault === 'silent') {
    process.stderr.write('waiting for a licence\n')
    continue
  }
  if (method === 'initialize') {
    const serverInfo = { name: 'misbehaving', version: '1.0.0' }
    write({
      id,
      result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo },
    })
  } else if (method === 'logging/setLevel') {
    level = params.level
    write({ id, result: {} })
  } else if (method === 'tools/list') write({ id, result: { tools } })
  else if (method === 'tools/call') calls[params.name](id, params.arguments, params['_meta'])
  else if (id !== undefined) write({ id, result: {} })
}
