import type { Writable } from 'node:stream'
import { isRecord } from '@x/internal'
import { CommandError, toLine, UsageError } from '@x/internal/command-line'
import type { Environment } from './expand-variables.ts'
import { errorText } from '../internal/error-text.ts'
import type { RunEvent } from '../internal/run-event.ts'
import { plannedGateway } from './planned-gateway.ts'
import type { PlannedGateway } from './planned-gateway.ts'

export interface ToolCall {
  readonly tool: string
  /** Either a message or `args`. */
  readonly message: string | undefined
  /** JSON. */
  readonly args?: string
  readonly file: string
  readonly json?: boolean
  readonly env: Environment
  readonly stdout: Writable
}

/** Calls a tool and prints its answer. @throws CommandError, also if the tool failed; GatewayError */
export async function callTool(call: ToolCall): Promise<void> {
  const { tool, file, json, env, stdout } = call
  const given = parseArguments(call.message, call.args)
  const errors: string[] = []
  const onEvent = (event: RunEvent): void => {
    if (event.type === 'failed') errors.push(errorText(event.error))
  }
  await using planned = await plannedGateway(
    { file, env, flags: [] },
    // One request without a session is all there is to it.
    { over: { auth: undefined, eras: { modern: false, legacy: 'stateless' }, onEvent } },
  )
  const result = await resultOf(planned, { name: tool, arguments: given })
  stdout.write(`${json ? JSON.stringify(result) : textOf(result)}\n`)
  if (result['isError'] === true) throw new CommandError([`${tool} failed`, ...errors].join(': '))
}

function parseArguments(message: string | undefined, json: string | undefined): object {
  if ((message === undefined) === (json === undefined)) {
    throw new UsageError('Give a message, or --args: see mcp-gateway call --help')
  }
  if (json === undefined) return { message }
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (cause) {
    throw new UsageError(`--args must be a JSON object: ${toLine(cause)}`, { cause })
  }
  if (!isRecord(value))
    throw new UsageError('--args must be a JSON object, such as {"city": "Oslo"}')
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
