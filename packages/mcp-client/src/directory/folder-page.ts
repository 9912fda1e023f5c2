import { isRecord } from '@x/internal'
import { FieldError, textFrom } from './server-fields.ts'

export const FOLDERS_PER_PAGE = 50

/**
 * Looks a folder up in one page of a search, which finds everything with a similar name.
 *
 * @throws FieldError for what is no such page
 */
export function folderKeyFrom(
  page: unknown,
  path: string,
): { readonly key: string | undefined; readonly isLast: boolean } {
  const items = isRecord(page) ? page['PageItems'] : undefined
  if (!Array.isArray(items)) throw new FieldError('PageItems is not an array')
  const folder: unknown = items.find(
    (item: unknown) => isRecord(item) && item['FullyQualifiedName'] === path,
  )
  const key = isRecord(folder) ? textFrom('Key', folder['Key']) : undefined
  return { key, isLast: items.length < FOLDERS_PER_PAGE }
}
