import { isRecord } from '@x/internal'
import type { RunEvent } from '../runs/run-event.ts'
import { CommandError, UsageError } from './command-error.ts'
import type { Command } from './command.ts'
import { DEFAULT_FILE } from './default-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import type { PlannedGateway } from './planned-gateway.ts'

export const callCommand: Command = {
  help: `Usage: mcp-gateway call <tool> [message] [options]

Calls one tool of the agents of a file, in this process, and prints its text. Nobody is asked for a
credential: whoever may read the file may call. Exit code 1 if the tool failed; what its agent threw
is said on standard error.

Options
  --file <file>        (default: ${DEFAULT_FILE})
  --args <json>        arguments, for a tool that takes more than a message
  --json               the result as MCP has it
  --help               this text
`,
  async run({ args, env, stdout }) {
    const { values, positionals } = parseOptions('call', args, {
      file: { type: 'string', default: DEFAULT_FILE },
      args: { type: 'string' },
      json: { type: 'boolean', default: false },
    })
    atMost('call', positionals, 2)
    const [tool, message] = positionals
    if (tool === undefined) throw new UsageError('Which tool? See mcp-gateway call --help')
    const given = argumentsFrom(message, values.args)
    const { plannedGateway } = await import('./planned-gateway.ts')
    const { errorText } = await import('../operation/error-text.ts')
    const thrown: string[] = []
    const onEvent = (event: RunEvent): void => {
      if (event.type === 'failed') thrown.push(errorText(event.error))
    }
    await using planned = await plannedGateway(
      { file: values.file, env, flags: [] },
      // One request without a session is all there is to it.
      { over: { auth: undefined, eras: { modern: false, legacy: 'stateless' }, onEvent } },
    )
    const result = await resultOf(planned, { name: tool, arguments: given })
    stdout.write(`${values.json ? JSON.stringify(result) : textOf(result)}\n`)
    if (result['isError'] === true) throw new CommandError([`${tool} failed`, ...thrown].join(': '))
  },
}

function argumentsFrom(message: string | undefined, json: string | undefined): object {
  if ((message === undefined) === (json === undefined)) {
    throw new UsageError('Give a message, or --args: see mcp-gateway call --help')
  }
  if (json === undefined) return { message }
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (cause) {
    throw new UsageError('--args is no JSON', { cause })
  }
  if (!isRecord(value)) throw new UsageError('--args takes an object: {"city": "Oslo"}')
  return value
}

type Result = Readonly<Record<string, unknown>>

/** @throws CommandError, with what is odd about the file: it may be why there is no such tool */
async function resultOf(planned: PlannedGateway, params: object): Promise<Result> {
  const { gateway, warnings } = planned
  const response = await gateway.fetch(
    new Request('http://localhost/mcp', {
      method: 'POST',
      headers: {
        host: 'localhost',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    }),
  )
  const answer = messagesFrom(await response.text()).find((each) => each['id'] === 1)
  const result = answer?.['result']
  if (isRecord(result)) return result
  const error = answer?.['error']
  if (!isRecord(error)) throw new CommandError(`It answered ${response.status}`)
  const message = `${String(error['message'])}${nearestText(error['data'])}`
  throw new CommandError([message, ...warnings].join('; '))
}

/** What there is that is called most like it. */
function nearestText(data: unknown): string {
  const nearest: unknown = isRecord(data) ? data['nearest'] : undefined
  if (!Array.isArray(nearest) || nearest.length === 0) return ''
  return `; nearest: ${nearest.map(String).join(', ')}`
}

/** Of a body that is JSON, or a stream of events (WHATWG HTML, section 9.2.6), each with one line of data. */
function messagesFrom(body: string): readonly Result[] {
  const texts = body.startsWith('{')
    ? [body]
    : body.split(/\r?\n/).flatMap((line) => (line.startsWith('data:') ? [line.slice(5)] : []))
  return texts
    .filter((text) => text.trim() !== '')
    .map((text): unknown => JSON.parse(text))
    .filter(isRecord)
}

function textOf({ content }: Result): string {
  if (!Array.isArray(content)) return ''
  return content.map((block: unknown) => blockText(block)).join('\n')
}

function blockText(block: unknown): string {
  if (!isRecord(block)) return ''
  if (block['type'] === 'text') return String(block['text'])
  if (block['type'] === 'resource_link') return String(block['uri'])
  const file = block['resource']
  if (isRecord(file)) return `${String(file['uri'])}${lines(file['text'])}`
  const { type, mimeType } = block
  return typeof mimeType === 'string' ? `[${String(type)} ${mimeType}]` : `[${String(type)}]`
}

function lines(text: unknown): string {
  return typeof text === 'string' ? `\n${text}` : ''
}
