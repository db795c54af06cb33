-- +goose Up
-- How many notes for the agent an approval came with: its text and each comment on a line or step is one.
ALTER TABLE decisions ADD COLUMN notes int NOT NULL DEFAULT 0 CONSTRAINT decisions_notes_check CHECK (notes >= 0);

-- +goose Down
ALTER TABLE decisions DROP COLUMN notes;
