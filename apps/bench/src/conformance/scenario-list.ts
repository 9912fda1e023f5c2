/** Which end of a connection a scenario tries. */
export const SIDES = ['client', 'server'] as const

export type Side = (typeof SIDES)[number]

const HEADLINES: Readonly<Record<Side, RegExp>> = {
  client: /^Client scenarios.*$/m,
  server: /^Server scenarios.*$/m,
}

/** The names under the side's headline in what `list --requirements <revision>` prints. */
export function requiredNames(text: string, side: Side): readonly string[] {
  const [, rest = ''] = text.split(HEADLINES[side])
  const [block = ''] = rest.split(/^\S/m) // up to the next headline
  return [...block.matchAll(/^ {2}- (\S+)/gm)].map(([, name = '']) => name)
}

/** The names that `list --client` shows with this revision, as in `- name [2025-06-18,2025-11-25]`. */
export function namesFor(text: string, revision: string): readonly string[] {
  return [...text.matchAll(/^ {2}- (\S+) \[([^\]]*)\]/gm)]
    .filter(([, , revisions = '']) => revisions.split(',').includes(revision))
    .map(([, name = '']) => name)
}
