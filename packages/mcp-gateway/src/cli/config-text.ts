import { isCollection, LineCounter, parseDocument } from 'yaml'
import type { Document } from 'yaml'

import { GatewayError } from '../errors.ts'
import type { ConfigPath } from './config-path.ts'

export interface ConfigText {
  readonly value: unknown
  /** The line of a place, from 1; of the nearest one around it, where it has none. */
  lineOf(path: ConfigPath): number | undefined
}

/** Aliases that refer to aliases could be a file of a gigabyte. */
const MAX_ALIASES = 100

/** Reads YAML, which JSON is too. @throws GatewayError `CONFIG` with name and line */
export function configText(text: string, name: string): ConfigText {
  const counter = new LineCounter()
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false })
  const [error] = document.errors
  if (error) {
    const { line } = counter.linePos(error.pos[0])
    throw new GatewayError('CONFIG', `${name}:${line}: ${error.message}`, { cause: error })
  }
  return { value: valueOf(document, name), lineOf: (path) => lineIn(document, counter, path) }
}

function valueOf(document: Document.Parsed, name: string): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES })
  } catch (cause) {
    throw new GatewayError('CONFIG', `${name}: it cannot be read as YAML`, { cause })
  }
}

function lineIn(
  document: Document.Parsed,
  counter: LineCounter,
  path: ConfigPath,
): number | undefined {
  for (let length = path.length; length > 0; length--) {
    const at = startOf(document, path.slice(0, length))
    if (at !== undefined) return counter.linePos(at).line
  }
  return undefined
}

function startOf(document: Document.Parsed, path: ConfigPath): number | undefined {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true)
  if (!isCollection(parent)) return undefined
  const key = path.at(-1)
  for (const [index, item] of parent.items.entries()) {
    const node: unknown = isPair(item) ? item.key : item
    const name = isPair(item) ? valueOfKey(node) : index
    if (name === key) return rangeStart(node)
  }
  return undefined
}

function isPair(item: unknown): item is { readonly key: unknown } {
  return typeof item === 'object' && item !== null && 'key' in item
}

function valueOfKey(node: unknown): unknown {
  return typeof node === 'object' && node !== null && 'value' in node
    ? String(node.value)
    : undefined
}

function rangeStart(node: unknown): number | undefined {
  if (typeof node !== 'object' || node === null || !('range' in node)) return undefined
  const { range } = node
  const start: unknown = Array.isArray(range) ? range[0] : undefined
  return typeof start === 'number' ? start : undefined
}
