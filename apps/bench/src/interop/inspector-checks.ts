import { execFile } from 'node:child_process'
import { mkdtempDisposable } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { bearerAuth } from '@x/mcp-gateway'
import { expectContains, expectThat } from './check.ts'
import type { Check } from './check.ts'
import type { Target } from './clients.ts'
import { serveInterop, STDIO_COMMAND } from './gateway-server.ts'

const TOKEN = 'a-token-of-some-length'

function callOf(tool: string, message: string): readonly string[] {
  return ['--method', 'tools/call', '--tool-name', tool, '--tool-arg', `message=${message}`]
}

/** Commands, and a part of what they print. With `--strict`, the Inspector reports what some clients do not accept. */
const COMMANDS: Readonly<Record<string, readonly (readonly [readonly string[], string])[]>> = {
  'lists tools that fit every client': [
    [['--method', 'tools/list', '--strict'], '"name":"support_ask"'],
  ],
  calls: [[callOf('support_ask', 'Hi'), 'You said: Hi']],
  'gets a question as the result': [[callOf('shirts', 'One'), 'Which size?']],
  'lists prompts and gets one': [
    [['--method', 'prompts/list'], 'support_ask_example_1'],
    [['--method', 'prompts/get', '--prompt-name', 'support_ask_example_1'], 'Where is order 7?'],
  ],
  'calls 100 times, 10 at once': [
    [
      [
        ...callOf('support_ask', 'Hi'),
        '--load',
        '--load-requests',
        '100',
        '--load-concurrency',
        '10',
      ],
      '"errors":0',
    ],
  ],
}

/** The command line of the MCP Inspector, in a process for each command. */
export const gatewayInspector: readonly Check[] = (['legacy', 'modern'] as const).flatMap((era) => {
  const group = `MCP Inspector, ${era}, at the gateway`
  const args = ['--protocol-era', era]
  return [
    ...Object.entries(COMMANDS).map(([name, commands]) => ({
      group,
      name,
      run: async () => {
        await using gateway = await serveInterop()
        for (const [command, part] of commands) {
          expectContains(await printed(gateway, [...args, ...command]), part)
        }
      },
    })),
    { group, name: 'calls with a token, and fails without one', run: () => bringsToken(args) },
    {
      group,
      name: 'calls over stdio',
      run: async () => {
        const call = [...args, ...callOf('support_ask', 'Hi')]
        expectContains(await printed(STDIO_COMMAND, call), 'You said: Hi')
      },
    },
  ]
})

async function printed(target: Target, args: readonly string[]): Promise<string> {
  const { code, text } = await runInspector(target, args)
  expectThat(code === 0, `expected exit code 0, got ${code}: ${text}`)
  return text
}

async function bringsToken(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop({ auth: bearerAuth(TOKEN) })
  const { url } = gateway
  const call = [...args, ...callOf('support_ask', 'Hi'), '--stored-auth-only']
  const headers = { authorization: `Bearer ${TOKEN}` }
  expectContains(await printed({ url, headers }, call), 'You said: Hi')
  const { code, text } = await runInspector({ url }, call)
  expectThat(
    code !== 0 && /auth/i.test(text),
    `expected an error about authentication, got ${text}`,
  )
}

const run = promisify(execFile)
const LAUNCHER = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json')),
  'clients/launcher/build/index.js',
)

interface InspectorOutcome {
  readonly code: number
  /** Its output, or its errors when it failed. */
  readonly text: string
}

/** Runs the Inspector with an empty home folder. */
async function runInspector(target: Target, args: readonly string[]): Promise<InspectorOutcome> {
  await using home = await mkdtempDisposable(join(tmpdir(), 'interop-inspector-'))
  const env = { PATH: process.env['PATH'], HOME: home.path, MCP_INSPECTOR_SECRET_STORE: 'memory' }
  const all = [LAUNCHER, '--cli', ...addressOf(target), ...args, '--format', 'json']
  try {
    const { stdout } = await run(process.execPath, all, { env, timeout: 9000 })
    return { code: 0, text: stdout }
  } catch (error) {
    return failureFrom(error)
  }
}

function addressOf(target: Target): readonly string[] {
  if ('command' in target) return [target.command, ...target.args]
  const headers = Object.entries(target.headers ?? {}).map(([name, value]) => `${name}: ${value}`)
  return [target.url, ...(headers.length > 0 ? ['--header', ...headers] : [])]
}

function failureFrom(error: unknown): InspectorOutcome {
  if (!(error instanceof Error))
    throw new Error('The Inspector failed without an error', { cause: error })
  const code = 'code' in error && typeof error.code === 'number' ? error.code : -1
  const stderr = 'stderr' in error ? String(error.stderr) : ''
  return { code, text: stderr === '' ? error.message : stderr }
}
