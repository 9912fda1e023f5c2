import { setImmediate } from 'node:timers/promises'
import {
  ProtocolError,
  type CallToolResult,
  type ContentBlock,
  type TextResourceContents,
} from '@modelcontextprotocol/server'

import {
  RunFailure,
  UI_SCHEME,
  type AgentSource,
  type AnswerUi,
  type FinalUpdate,
  type Question,
  type RunTool,
} from '../agents/agent.ts'
import { areSchemasPending, whenSchemasChecked } from '../agents/schemas.ts'
import { GatewayError, textForCaller } from '../errors.ts'
import { jsonBytesOf } from '../files/blocks.ts'
import { asksForSecret, isWebPage } from './forms.ts'
import { beginningOf, valueFromJson, wholeCharacters } from '../internal/text.ts'
import { forgetQuestion, type ActiveRun } from './run.ts'
import type { RunEnding, ToolOutcome } from './order.ts'

type Update<Type extends FinalUpdate['type']> = Extract<FinalUpdate, { type: Type }>
type Asked = Extract<RunEnding, { type: 'asked' }>

/** Text of a result without any other content, because some clients treat an empty result as a failure. */
export const NO_OUTPUT = 'The agent finished without output.'

/** Bytes for everything that is not measured: wrappers of blocks, `_meta`, and the mark of a text that was cut. */
const RESERVED_BYTES = 4096
const MAX_REASON_CHARS = 8000
const SLICE_CHARS = 256 * 1024
const SECRET =
  'It asks for a secret, and answers pass through the client: it has to send people to a page of its own instead.'

/**
 * Runs the agent to its last update, and makes the result or the questions for the caller.
 *
 * @param thread conversation of the run, if it has one
 * @throws RunFailure for every end that is neither
 */
export async function runAgent(
  run: ActiveRun,
  source: AgentSource,
  thread: string | undefined,
): Promise<RunEnding> {
  const { tool } = run.execution
  const final = await run.listen(source, thread)
  if (final.type === 'done') {
    const result = await toResult(run, final)
    const [only, ...others] = result.content
    const isEmpty = others.length === 0 && only?.type === 'text' && only.text === NO_OUTPUT
    return { type: 'result', result, ...(isEmpty && { isEmpty }) }
  }
  if (final.type === 'failed') {
    const { reason, isCancelled = false, isUnknown = false } = final
    if (isUnknown) throw new RunFailure('outcome_unknown', reason)
    if (!isCancelled) throw new RunFailure('agent_failed', reason)
    throw new RunFailure('cancelled', `Agent "${tool.agent.name}": ${reason}`)
  }
  try {
    const ending = final.type === 'asked' ? await toAsked(run, final) : await toVisit(run, final)
    if (run.signal.aborted) forgetQuestion(source, tool.agent.id, final)
    return ending
  } catch (error) {
    forgetQuestion(source, tool.agent.id, final)
    throw error
  }
}

/** Returns an error that the model can read and act on. */
export function failureResult(failure: RunFailure, runId: string): CallToolResult {
  const { reason, retryAfterMs } = failure
  const message = wholeCharacters(failure.message, MAX_REASON_CHARS)
  return {
    content: [{ type: 'text', text: `${message} (${runId})` }],
    isError: true,
    _meta: { reason, runId, ...(retryAfterMs !== undefined && { retryAfterMs }) },
  }
}

/** Returns an error that the model can read, of a call that has no run. */
export function toolError(reason: RunFailure['reason'], text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true, _meta: { reason } }
}

/**
 * Returns the outcome of a call that failed before or after its run.
 *
 * @param text for the caller, if the error is not meant for callers
 * @throws ProtocolError as it is
 */
export function failedOutcome(error: unknown, text: string, runId: string): ToolOutcome {
  if (error instanceof ProtocolError) throw error
  const isKnown = error instanceof RunFailure
  const failure = isKnown ? error : new RunFailure('unavailable', text, { cause: error })
  return { type: 'result', result: failureResult(failure, runId) }
}

async function toAsked(
  { files }: ActiveRun,
  { questions, state, beginsAnew = false }: Update<'asked'> & Partial<Pick<Asked, 'beginsAnew'>>,
): Promise<Asked> {
  // Clients do not repeat a call that asks for nothing.
  if (questions.length === 0) throw new RunFailure('agent_failed', 'It asked without a question.')
  if (questions.some(({ schema }) => asksForSecret(schema))) {
    throw new RunFailure('agent_failed', SECRET)
  }
  const shown = questions.map(withWebPage)
  const soFar = await files.soFar()
  return { type: 'asked', questions: shown, state, beginsAnew, files: soFar, progress: 0 }
}

/** A page to visit is a question, for a client that can send its user there. */
async function toVisit(
  run: ActiveRun,
  { url = '', reason: text = 'It needs access.', state }: Update<'authorization'>,
): Promise<Asked> {
  const { order, tool } = run.execution
  if (order.client.canVisit && isWebPage(url)) {
    const message = `Agent "${tool.agent.name}": ${text}`
    const questions = [{ id: 'access', message, url }]
    const beginsAnew = state === undefined
    return toAsked(run, { type: 'asked', questions, state: state ?? null, beginsAnew })
  }
  const where = isWebPage(url)
    ? `Open ${url} to sign in, then call again.`
    : 'It does not say where.'
  throw new RunFailure('auth_required', `${text} ${where}`)
}

/** A URL that is not a web page is shown as text, and not opened. */
function withWebPage({ url, ...question }: Question): Question {
  if (url === undefined) return question
  if (isWebPage(url)) return { ...question, url }
  return { ...question, message: `${question.message}\n${url}` }
}

/**
 * Makes a result of at most `resultMaxBytes` bytes as JSON: text first, then files in their order. Structured content is
 * repeated as text, for clients that do not know it. A text that is too large is cut, marked, and kept whole as a file. A
 * user interface comes last, and is left out if it is too large.
 *
 * @throws RunFailure `invalid_output`; `too_large` if the structured content of a tool with an output schema is too large
 */
async function toResult(
  run: ActiveRun,
  { text: whole, structured, ui }: Update<'done'>,
): Promise<CallToolResult> {
  const { order, tool } = run.execution
  if (areSchemasPending()) await whenSchemasChecked()
  assertOutput(tool, structured)
  const page = ui && pageOf(ui)
  const text = whole ?? run.text
  const notes = run.notes({ hasText: whole !== undefined })
  const json = structured === undefined ? undefined : JSON.stringify(structured)
  const isRepeated = json !== undefined && isSameJson(text, json)
  const { resultMaxBytes } = run.files
  const parts = new ResultParts(run, resultMaxBytes - RESERVED_BYTES - jsonBytes(notes))
  const structure = json === undefined ? [] : await parts.structure(json, isRepeated ? text : json)
  const said = isRepeated || text === '' ? [] : await parts.text(text)
  const shown = page === undefined ? [] : parts.page(page)
  const blocks = await run.files.blocks(parts.room)
  const content = [...said, ...structure, ...blocks, ...shown]
  for (const note of notes) content.push({ type: 'text', text: note })
  if (content.length === 0) content.push({ type: 'text', text: NO_OUTPUT })
  return {
    content,
    ...(parts.hasStructure && { structuredContent: { ...structured } }),
    _meta: {
      runId: order.runId,
      ...(parts.isCut && { isTruncated: true }),
      ...(parts.hasPage && { ui: { resourceUri: ui?.resourceUri } }),
    },
  }
}

function assertOutput(
  { outputSchema, checkOutput }: RunTool,
  structured: Update<'done'>['structured'],
): void {
  if (outputSchema === undefined) return
  const error = structured === undefined ? 'there is none' : checkOutput(structured)
  if (error === undefined) return
  throw new RunFailure('invalid_output', `Its output does not match its own schema: ${error}.`)
}

/** @throws RunFailure `invalid_output` for an address that a host would not take for a user interface */
function pageOf(ui: AnswerUi): ContentBlock {
  if (!ui.resourceUri.startsWith(UI_SCHEME)) {
    throw new RunFailure(
      'invalid_output',
      `The address of its user interface is not ${UI_SCHEME}….`,
    )
  }
  return { type: 'resource', resource: pageResourceOf(ui) }
}

/** Returns the page of a user interface as the content of a resource. */
export function pageResourceOf({
  meta,
  page: text,
  resourceUri: uri,
}: AnswerUi): TextResourceContents {
  const resource = { uri, mimeType: 'text/html;profile=mcp-app', text }
  return { ...resource, ...(meta && { _meta: { ui: meta } }) }
}

/** Makes the parts of a result within its room. Keeps a part that is too large as a file. */
class ResultParts {
  readonly #run: ActiveRun
  /** Bytes as JSON that are left. */
  room: number
  /** The result has the whole structured content. */
  hasStructure = false
  /** The result has the page of its user interface. */
  hasPage = false
  isCut = false

  constructor(run: ActiveRun, room: number) {
    this.#run = run
    this.room = Math.max(0, room)
  }

  /** @param copy the structured content as text. @throws RunFailure `too_large` for a tool with an output schema */
  async structure(json: string, copy: string): Promise<readonly ContentBlock[]> {
    const { order, tool } = this.#run.execution
    const size = Buffer.byteLength(json)
    const bytes = size + textBytes(copy, this.room)
    this.hasStructure = bytes <= this.room
    if (this.hasStructure) {
      this.room -= bytes
      return [{ type: 'text', text: copy }]
    }
    const kept = await this.#keep(`result-${order.runId}.json`, json)
    const text = `The structured result has ${size} bytes, more than this result may have. ${kept.note}`
    if (tool.outputSchema !== undefined) throw new RunFailure('too_large', text)
    return [{ type: 'text', text }, ...kept.links]
  }

  async text(text: string): Promise<readonly ContentBlock[]> {
    const bytes = textBytes(text, this.room)
    if (bytes <= this.room) {
      this.room -= bytes
      return [{ type: 'text', text }]
    }
    // The other half of the room is for files of the run.
    const shown = beginningOf(text, Math.floor(this.room / 2), jsonBytes)
    const kept = await this.#keep(`answer-${this.#run.execution.order.runId}.txt`, text)
    this.room -= textBytes(shown, this.room)
    const mark = `[Cut here: ${shown.length} of ${text.length} characters are shown. ${kept.note}]`
    return [{ type: 'text', text: `${shown}\n${mark}` }, ...kept.links]
  }

  page(block: ContentBlock): readonly ContentBlock[] {
    const bytes = jsonBytesOf(block)
    this.hasPage = bytes <= this.room
    if (this.hasPage) {
      this.room -= bytes
      return [block]
    }
    this.isCut = true
    const text = `The user interface has ${bytes} bytes, more than this result may have. It is left out.`
    return [{ type: 'text', text }]
  }

  async #keep(
    name: string,
    text: string,
  ): Promise<{ readonly links: readonly ContentBlock[]; readonly note: string }> {
    this.isCut = true
    try {
      const link = await this.#run.files.keep({ name, data: slicesOf(text) })
      if (link) return { links: [link], note: `All of it is in the file ${link.uri}.` }
      return { links: [], note: 'This gateway keeps no files: the rest is lost.' }
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      return { links: [], note: `It could not be kept as a file: ${textForCaller(error)}.` }
    }
  }
}

/** Encodes a text as UTF-8 in slices, and lets other work run after each. */
async function* slicesOf(text: string): AsyncGenerator<Uint8Array> {
  for (let rest = text; rest !== '';) {
    const slice = wholeCharacters(rest, SLICE_CHARS)
    rest = rest.slice(slice.length)
    yield Buffer.from(slice)
    await setImmediate()
  }
}

/** Bytes of a text as JSON. A text with more characters than `enough` is not measured. */
function textBytes(text: string, enough: number): number {
  return text.length > enough ? text.length : jsonBytes(text)
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

function isSameJson(text: string, json: string): boolean {
  if (text === json) return true
  if (!text.startsWith('{') && !text.startsWith('```')) return false
  return JSON.stringify(valueFromJson(text)) === json
}
