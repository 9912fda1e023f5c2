import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server'

import { GatewayError } from '../errors.ts'
import type { RunFiles } from '../files/result-files.ts'
import { RunFailure } from '../agents/run-failure.ts'

/** The answer of a run, as the agent gave it. */
export interface RunAnswer {
  readonly runId: string
  readonly text: string
  readonly structured?: Readonly<Record<string, unknown>> | undefined
  /** Files of the run. @default none are kept or shown */
  readonly files?: RunFiles | undefined
  /** Sentences for the caller, such as about files that could not be kept. */
  readonly notes?: readonly string[] | undefined
  /** The tool declares an output schema, so that a result without structured content is not valid. */
  readonly hasOutputSchema?: boolean | undefined
}

/** Shown for an agent that says nothing and makes nothing: some clients take an empty result for a fault. */
export const NO_OUTPUT = 'The agent finished without output.'

/** Bytes of what is not measured: wrappers of blocks, `_meta`, and what is said of a text that was cut. */
const RESERVED_BYTES = 4096
/** Characters of the reason of a failure. */
const MAX_REASON_CHARS = 8000

/**
 * Makes a result that has at most `maxBytes` bytes as JSON: text first, then files in their order. Structured content is
 * repeated as text, for clients that do not know it. A text that is too large is cut, marked, and kept whole as a file.
 *
 * @throws RunFailure `too_large` if the structured content of a tool with an output schema is too large
 */
export async function resultOf(answer: RunAnswer, maxBytes: number): Promise<CallToolResult> {
  const { runId, text, structured, files, notes = [] } = answer
  const json = structured === undefined ? undefined : JSON.stringify(structured)
  const isRepeated = json !== undefined && isSameJson(text, json)
  let room = Math.max(0, maxBytes - RESERVED_BYTES - Buffer.byteLength(JSON.stringify(notes)))
  const structure = await structurePart(answer, { json, copy: isRepeated ? text : json, room })
  room -= structure.bytes
  const said = await textPart(answer, isRepeated ? '' : text, room)
  room -= said.bytes
  const blocks = (await files?.blocks(room)) ?? []
  const content = [...said.content, ...structure.content, ...blocks]
  for (const note of notes) content.push({ type: 'text', text: note })
  if (content.length === 0) content.push({ type: 'text', text: NO_OUTPUT })
  return {
    content,
    ...(structure.isShown && { structuredContent: { ...structured } }),
    _meta: { runId, ...((said.isCut || structure.isCut) && { isTruncated: true }) },
  }
}

interface Part {
  readonly content: readonly ContentBlock[]
  /** Bytes as JSON. */
  readonly bytes: number
  readonly isShown?: boolean
  readonly isCut?: boolean
}

const NOTHING: Part = { content: [], bytes: 0 }

interface StructureOptions {
  readonly json: string | undefined
  /** The same as text. */
  readonly copy: string | undefined
  readonly room: number
}

async function structurePart(
  answer: RunAnswer,
  { json, copy, room }: StructureOptions,
): Promise<Part> {
  if (json === undefined || copy === undefined) return NOTHING
  const size = Buffer.byteLength(json)
  const bytes = size + textBytes(copy, room)
  if (bytes <= room) {
    return { content: [{ type: 'text', text: copy }], bytes, isShown: true }
  }
  const kept = await keep(answer, { name: `result-${answer.runId}.json`, text: json })
  const note = `The structured result has ${size} bytes, more than this result may have. ${kept.note}`
  if (answer.hasOutputSchema === true) throw new RunFailure('too_large', note)
  const content = [{ type: 'text' as const, text: note }, ...kept.links]
  return { content, bytes: 0, isCut: true }
}

async function textPart(answer: RunAnswer, text: string, room: number): Promise<Part> {
  if (text === '') return NOTHING
  const bytes = textBytes(text, room)
  if (bytes <= room) return { content: [{ type: 'text', text }], bytes }
  // Half of the room: files of the same run are to be shown, too.
  const shown = beginningOf(text, Math.floor(room / 2))
  const kept = await keep(answer, { name: `answer-${answer.runId}.txt`, text })
  const mark = `[Cut here: ${shown.length} of ${text.length} characters are shown. ${kept.note}]`
  const content = [{ type: 'text' as const, text: `${shown}\n${mark}` }, ...kept.links]
  return { content, bytes: textBytes(shown, room), isCut: true }
}

interface KeptText {
  readonly links: readonly ContentBlock[]
  readonly note: string
}

async function keep(
  { files }: RunAnswer,
  { name, text }: { readonly name: string; readonly text: string },
): Promise<KeptText> {
  try {
    const link = await files?.keep({ name, data: slicesOf(text) })
    if (link === undefined)
      return { links: [], note: 'This gateway keeps no files: the rest is lost.' }
    return { links: [link], note: `All of it is in the file ${link.uri}.` }
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    // Other errors are about the store: where that is concerns no caller.
    const isOfCaller = error.code === 'QUOTA' || error.code === 'LIMIT'
    const why = isOfCaller ? `: ${error.message}` : ''
    return { links: [], note: `It could not be kept as a file${why}.` }
  }
}

/** As UTF-8, in pieces: a text of many megabytes must not keep others waiting. */
async function* slicesOf(text: string): AsyncGenerator<Uint8Array> {
  for (let rest = text; rest !== '';) {
    const slice = startOf(rest, SLICE_CHARS)
    rest = rest.slice(slice.length)
    yield Buffer.from(slice)
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  }
}

const SLICE_CHARS = 256 * 1024

/** The first characters of a text, without half of one at the end. */
function startOf(text: string, length: number): string {
  if (length >= text.length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/** Bytes of a text as JSON. What is surely more than `enough` is not measured. */
function textBytes(text: string, enough: number): number {
  return text.length > enough ? text.length : Buffer.byteLength(JSON.stringify(text))
}

/** A beginning that has at most, and nearly, so many bytes as JSON. */
function beginningOf(text: string, maxBytes: number): string {
  let length = maxBytes
  for (;;) {
    const start = startOf(text, length)
    const bytes = Buffer.byteLength(JSON.stringify(start))
    if (bytes <= maxBytes || start === '') return start
    length = Math.floor((start.length * maxBytes) / bytes) - 1
  }
}

/** An error that the model can read and act on. */
export function failureResult(failure: RunFailure, runId: string): CallToolResult {
  const { reason, retryAfterMs } = failure
  const message = startOf(failure.message, MAX_REASON_CHARS)
  return {
    content: [{ type: 'text', text: `${message} (${runId})` }],
    isError: true,
    _meta: { reason, runId, ...(retryAfterMs !== undefined && { retryAfterMs }) },
  }
}

function isSameJson(text: string, json: string): boolean {
  if (text === json) return true
  if (!text.startsWith('{') && !text.startsWith('```')) return false
  try {
    return JSON.stringify(JSON.parse(text)) === json
  } catch {
    return false
  }
}
