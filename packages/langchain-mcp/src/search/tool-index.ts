import { createHash } from 'node:crypto'
import { BoundedMap, isRecord } from '@x/internal'
import { serverTitle } from '../tool-source.ts'
import type { McpTool } from '../tools/mcp-tool.ts'
import { WordIndex, type WordDocument } from './word-index.ts'
import { spaced, wordsOf } from './words.ts'

/** What is known of a tool that can be found. */
type FindableTool = Pick<McpTool, 'name' | 'definition' | 'origin'>

/** How often a word of each text counts. The name says most. */
const TIMES = {
  name: 8,
  title: 6,
  server: 6,
  description: 2,
  parameters: 1,
  parameterDescriptions: 1,
} as const

/**
 * A server writes these texts, so each is cut. A description that is full of words must not be found for everything.
 */
const MAX_TITLE_CHARACTERS = 200
const MAX_TEXT_CHARACTERS = 600

/** Tools of a server that the query names count more than those of others. */
const SERVER_WEIGHT = 2
/** A longer query is cut: it names nothing that a shorter one cannot name. */
const MAX_QUERY_CHARACTERS = 1000
/** Limit of tools that one query finds, with those that it names. */
const MAX_FOUND = 20

/** An index takes a few megabytes. Users with the same tools share one. */
const MAX_INDEXES = 4

/** The texts that are searched. The id is the name that the model sees. */
interface ToolTexts extends WordDocument {
  /** Other names that a query may have for the tool, in lower case. */
  readonly names: readonly string[]
  readonly server: string
}

/** By the hash of the texts. */
const indexes = new BoundedMap<string, ToolIndex>(MAX_INDEXES)

/** Returns the index of these tools. It is made once for equal tools. */
export function indexOf(tools: readonly FindableTool[]): ToolIndex {
  const texts = tools.map(textsOf)
  const key = createHash('sha256').update(JSON.stringify(texts)).digest('hex')
  const index = indexes.get(key) ?? new ToolIndex(texts)
  indexes.delete(key)
  indexes.set(key, index) // the oldest is the one that was used least recently
  return index
}

/**
 * Finds tools by words: names, titles, descriptions, parameters and the names of servers. A query that contains the
 * exact name of a tool finds it first.
 */
class ToolIndex {
  readonly #texts: readonly ToolTexts[]
  /** Words of the server of each tool. */
  readonly #servers: ReadonlyMap<string, readonly string[]>
  #words: Promise<WordIndex> | undefined

  constructor(texts: readonly ToolTexts[]) {
    this.#texts = texts
    this.#servers = new Map(texts.map(({ id, server }) => [id, wordsOf(server)]))
  }

  /**
   * Returns names of tools, the best first: those that the query names, and then at most `limit` others. A query of names
   * alone finds no others. Words that no tool has are ignored.
   */
  async find(query: string, limit: number): Promise<string[]> {
    const text = query.slice(0, MAX_QUERY_CHARACTERS).replace(/^\s*select:/i, '')
    const parts = text.split(/[^\p{L}\p{N}_-]+/u).filter((part) => part !== '')
    const named = this.#namedBy(parts)
    const names = named.map(({ id }) => id)
    const areAllNames = parts.every((part) =>
      named.some((tool) => tool.names.includes(part.toLowerCase())),
    )
    if (areAllNames) return names
    const queryWords = new Set(wordsOf(text))
    const words = await (this.#words ??= WordIndex.of(this.#texts))
    const found = Array.from(words.scores(text), ([id, score]) => {
      const server = this.#servers.get(id) ?? []
      const isNamed = server.length > 0 && server.every((word) => queryWords.has(word))
      return { id, score: isNamed ? score * SERVER_WEIGHT : score }
    })
      .toSorted((a, b) => b.score - a.score)
      .map(({ id }) => id)
      .filter((name) => !names.includes(name))
    return [...names, ...found.slice(0, Math.min(limit, MAX_FOUND - names.length))]
  }

  /** Returns the tools that these parts of a query name: as the model sees them, as their server does, or with the server before the name. */
  #namedBy(parts: readonly string[]): ToolTexts[] {
    // A name that is one word, such as "click", is in many queries that mean other tools.
    const names = new Set(
      parts
        .filter((part) => parts.length === 1 || wordsOf(spaced(part)).length > 1)
        .map((part) => part.toLowerCase()),
    )
    return this.#texts
      .filter((tool) => tool.names.some((name) => names.has(name)))
      .slice(0, MAX_FOUND)
  }
}

function textsOf({ name, definition, origin }: FindableTool): ToolTexts {
  const { title = '', description = '', inputSchema = {} } = definition
  const { toolName } = origin
  const server = serverTitle(origin.server)
  const properties = isRecord(inputSchema['properties']) ? inputSchema['properties'] : {}
  const descriptions = Object.values(properties).map((property) =>
    isRecord(property) && typeof property['description'] === 'string'
      ? property['description']
      : '',
  )
  return {
    id: name,
    names: [name, toolName, `${server}_${toolName}`].map((one) => one.toLowerCase()),
    server,
    texts: [
      [spaced(toolName).slice(0, MAX_TITLE_CHARACTERS), TIMES.name],
      [title.slice(0, MAX_TITLE_CHARACTERS), TIMES.title],
      [server.slice(0, MAX_TITLE_CHARACTERS), TIMES.server],
      [description.slice(0, MAX_TEXT_CHARACTERS), TIMES.description],
      [spaced(parametersOf(inputSchema).join(' ')).slice(0, MAX_TEXT_CHARACTERS), TIMES.parameters],
      [descriptions.join(' ').slice(0, MAX_TEXT_CHARACTERS), TIMES.parameterDescriptions],
    ],
  }
}

/** Returns the names of the parameters, and the values that they may have. */
function parametersOf(schema: unknown, depth = 3): string[] {
  if (!isRecord(schema) || depth === 0) return []
  const { properties, items, enum: values } = schema
  const inside = Object.entries(isRecord(properties) ? properties : {})
  return [
    ...inside.flatMap(([name, property]) => [name, ...parametersOf(property, depth - 1)]),
    ...parametersOf(items, depth - 1),
    ...(Array.isArray(values) ? values.filter((value) => typeof value === 'string') : []),
  ]
}
