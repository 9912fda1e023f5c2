import { bearerAuth } from '@x/mcp-gateway'
import { expectThat } from '../check.ts'
import type { Check } from '../check.ts'
import type { Target } from '../gateway/client-kind.ts'
import { expectHolds } from '../gateway/expect-holds.ts'
import { serveInterop } from '../gateway/interop-gateway.ts'
import { runInspector } from '../gateway/run-inspector.ts'
import { STDIO_COMMAND } from '../gateway/stdio-command.ts'

const CALL = ['--method', 'tools/call', '--tool-name']
const TOKEN = 'a-token-of-some-length'

/** The MCP Inspector's command line: a process for each thing that it does. */
export const gatewayInspector: readonly Check[] = (['legacy', 'modern'] as const).flatMap((era) => {
  const group = `MCP Inspector, ${era}, at the gateway`
  const args = ['--protocol-era', era]
  return [
    { group, name: 'lists tools that fit every client', run: () => listsTools(args) },
    { group, name: 'calls', run: () => calls(args) },
    { group, name: 'is told what an agent asks', run: () => isToldQuestion(args) },
    { group, name: 'lists prompts and gets one', run: () => getsPrompt(args) },
    { group, name: 'calls 100 times, 10 at once', run: () => loads(args) },
    { group, name: 'brings a token, or is told to', run: () => bringsToken(args) },
    { group, name: 'calls over stdio', run: () => callsOverStdio(args) },
  ]
})

async function printed(target: Target, args: readonly string[]): Promise<string> {
  const { code, text } = await runInspector(target, args)
  expectThat(code === 0, `expected exit code 0, got ${code}: ${text}`)
  return text
}

/** With `--strict` it looks for what some clients and models cannot take. */
async function listsTools(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop()
  const text = await printed(gateway, [...args, '--method', 'tools/list', '--strict'])
  expectHolds(text, '"name":"support_ask"')
}

async function calls(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop()
  const text = await printed(gateway, [...args, ...CALL, 'support_ask', '--tool-arg', 'message=Hi'])
  expectHolds(text, 'You said: Hi')
}

async function isToldQuestion(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop()
  const text = await printed(gateway, [...args, ...CALL, 'shirts', '--tool-arg', 'message=One'])
  expectHolds(text, 'Which size?')
}

async function getsPrompt(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop()
  const list = await printed(gateway, [...args, '--method', 'prompts/list'])
  expectHolds(list, 'support_ask_example_1')
  const name = ['--prompt-name', 'support_ask_example_1']
  const prompt = await printed(gateway, [...args, '--method', 'prompts/get', ...name])
  expectHolds(prompt, 'Where is order 7?')
}

async function loads(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop()
  const load = ['--load', '--load-requests', '100', '--load-concurrency', '10']
  const call = [...CALL, 'support_ask', '--tool-arg', 'message=Hi']
  const text = await printed(gateway, [...args, ...call, ...load])
  expectHolds(text, '"errors":0')
}

async function bringsToken(args: readonly string[]): Promise<void> {
  await using gateway = await serveInterop({ auth: bearerAuth(TOKEN) })
  const { url } = gateway
  const call = [...args, ...CALL, 'support_ask', '--tool-arg', 'message=Hi', '--stored-auth-only']
  const headers = { authorization: `Bearer ${TOKEN}` }
  expectHolds(await printed({ url, headers }, call), 'You said: Hi')
  const { code, text } = await runInspector({ url }, call)
  expectThat(code !== 0 && /auth/i.test(text), `expected to be told to sign in, got ${text}`)
}

async function callsOverStdio(args: readonly string[]): Promise<void> {
  const call = [...CALL, 'support_ask', '--tool-arg', 'message=Hi']
  expectHolds(await printed(STDIO_COMMAND, [...args, ...call]), 'You said: Hi')
}
