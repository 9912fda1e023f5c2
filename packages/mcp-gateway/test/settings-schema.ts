// Makes `gateway.schema.json`, with which editors complete and check a configuration file.
import { isRecord } from '@x/internal'
import { z } from 'zod'

import { readConfig } from '../src/cli/config-file.ts'
import { USES_ALL_PACKAGES } from './settings-reference.ts'

/** In the place of any value: a text with a variable, or nothing, which means the default. */
const VARIABLE = { type: ['string', 'null'], pattern: String.raw`\$\{` }

/** @param page the page of all settings, whose sentences become the descriptions */
export async function settingsSchema(page: string): Promise<string> {
  const { schema } = await readConfig(USES_ALL_PACKAGES)
  const sentences = new Map(
    Array.from(page.matchAll(/^- \*\*`(.+?)`\*\*(?: \(.*?\))?: (.*)$/gm), ([, path, text]) => [
      path,
      text?.replaceAll(/\[(.*?)\]\(.*?\)/g, '$1'),
    ]),
  )
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return `${JSON.stringify(forEditors(json, '', sentences), undefined, 1)}\n`
}

function forEditors(schema: unknown, path: string, sentences: Sentences): unknown {
  if (!isRecord(schema)) return schema
  const { properties, items, anyOf, oneOf, additionalProperties, required, ...rest } = schema
  const own: Record<string, unknown> = { ...rest }
  delete own['secret'] // for our own reading
  const inside = (value: unknown): unknown => forEditors(value, '', sentences)
  const found = {
    ...own,
    ...(Array.isArray(anyOf) && { anyOf: anyOf.map(inside) }),
    ...(Array.isArray(oneOf) && { oneOf: oneOf.map(inside) }),
    ...(items !== undefined && { items: inside(items) }),
    ...(additionalProperties !== undefined && {
      additionalProperties: inside(additionalProperties),
    }),
    // Only a store in Redis needs a URL, and its schema is also that of the other stores.
    ...(path !== 'store' && required !== undefined && { required }),
    ...(isRecord(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, value]) => [
          key,
          forEditors(value, path === '' ? key : `${path}.${key}`, sentences),
        ]),
      ),
    }),
  }
  const description = sentences.get(path)
  const described = description === undefined ? {} : { description }
  const isAnything = Object.keys(own).every((key) => key === 'default') && !anyOf && !oneOf
  if (path === '' && properties !== undefined) return found
  if ('const' in own || isAnything) return { ...found, ...described }
  return { ...described, anyOf: [found, VARIABLE] }
}

type Sentences = ReadonlyMap<string | undefined, string | undefined>
