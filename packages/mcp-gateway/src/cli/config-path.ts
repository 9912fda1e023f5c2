/** Where in a configuration something is. */
export type ConfigPath = readonly (string | number)[]

/** For people: `agents.sources[0].url`, `tools.overrides["support/ask"].title`. */
export function pathText(path: ConfigPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`
    if (!/^[\w-]+$/.test(part)) return `${text}[${JSON.stringify(part)}]`
    return text === '' ? part : `${text}.${part}`
  }, '')
}

/** From the text again; what is no such text is one key. */
export function pathFrom(text: string): ConfigPath {
  const parts = text.matchAll(/\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g)
  return [...parts].map(([, index, quoted, key]) =>
    index === undefined ? (quoted ?? key ?? '') : Number(index),
  )
}
