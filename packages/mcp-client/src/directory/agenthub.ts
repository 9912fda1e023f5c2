// The preset `'agenthub'` of `httpDirectory()`: the variables, paths and folders of that platform.
import { isRecord } from '@x/internal'
import { FieldError, parseText } from '../server-fields.ts'

export interface Folder {
  readonly path: string | undefined
  readonly key: string | undefined
}

export const SERVERS_PATH = 'agenthub_/api/servers'
export const FOLDERS_PATH = 'orchestrator_/api/FoldersNavigation/GetFoldersForCurrentUser'
const FOLDERS_PER_PAGE = 50
const MAX_PAGES = 20

/** Variables that the platform sets for a process that runs on it. */
interface AgentHubVariables {
  readonly url: string | undefined
  /** Was issued for the origin of `url`, and is never sent to another one. */
  readonly token: string | undefined
  readonly folder: Folder
}

function variable(name: string): string | undefined {
  return process.env[name] || undefined
}

export function agentHubVariables(): AgentHubVariables {
  return {
    url: variable('UIPATH_URL'),
    token: variable('UIPATH_ACCESS_TOKEN'),
    folder: { path: variable('UIPATH_FOLDER_PATH'), key: variable('UIPATH_FOLDER_KEY') },
  }
}

/** Queries of the pages of a search, which returns all folders with a similar name. */
export function folderQueries(path: string): readonly Readonly<Record<string, string>>[] {
  return Array.from({ length: MAX_PAGES }, (_, page) => ({
    searchText: path.split('/').at(-1) ?? path,
    take: String(FOLDERS_PER_PAGE),
    skip: String(page * FOLDERS_PER_PAGE),
  }))
}

/** Finds a folder by its full path in one page of the search. */
export function parseFolders(
  page: Readonly<Record<string, unknown>>,
  path: string,
): { readonly key: string | undefined; readonly isLast: boolean } {
  const items = page['PageItems']
  if (!Array.isArray(items)) throw new FieldError('PageItems must be an array')
  const folder: unknown = items.find(
    (item: unknown) => isRecord(item) && item['FullyQualifiedName'] === path,
  )
  const key = isRecord(folder) ? parseText('Key', folder['Key']) : undefined
  return { key, isLast: items.length < FOLDERS_PER_PAGE }
}
