/** The names under "Client scenarios" in what `list --requirements <revision>` prints. */
export function requiredNames(text: string): readonly string[] {
  const [, rest = ''] = text.split(/^Client scenarios.*$/m)
  const [block = ''] = rest.split(/^\S/m) // up to the next headline
  return [...block.matchAll(/^ {2}- (\S+)/gm)].map(([, name = '']) => name)
}

/** The names that `list --client` shows with this revision, as in `- name [2025-06-18,2025-11-25]`. */
export function namesFor(text: string, revision: string): readonly string[] {
  return [...text.matchAll(/^ {2}- (\S+) \[([^\]]*)\]/gm)]
    .filter(([, , revisions = '']) => revisions.split(',').includes(revision))
    .map(([, name = '']) => name)
}
