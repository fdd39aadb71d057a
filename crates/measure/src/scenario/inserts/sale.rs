//! The inserted row: a line of a sale, as the till of a shop writes it.

/// Size of the numbers before the text, bytes.
const FIXED: usize = 44;

/// One line of a sale. Its number determines all fields, so that rows that are read back can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sale {
    /// Unique number.
    pub id: u64,
    /// Number of the till.
    pub till: i32,
    /// Number of the receipt.
    pub receipt: i64,
    /// Number of the line on the receipt.
    pub line: i32,
    /// Number of items sold.
    pub quantity: i32,
    /// Price of one item, in cents.
    pub price_cents: i64,
    /// Time of the sale, in milliseconds since 1970.
    pub sold_at: i64,
    /// Bar code and name of the article.
    pub article: String,
}

impl Sale {
    /// Columns and their types, valid for all the databases; `id` is the primary key.
    pub const COLUMNS: &str = "id BIGINT PRIMARY KEY, till INT NOT NULL, receipt BIGINT NOT NULL, \
         line INT NOT NULL, quantity INT NOT NULL, price_cents BIGINT NOT NULL, \
         sold_at BIGINT NOT NULL, article VARCHAR(120) NOT NULL";
    /// Names of the columns, in that order.
    pub const NAMES: &str = "id, till, receipt, line, quantity, price_cents, sold_at, article";

    /// Returns the line with this number.
    pub fn new(id: u64) -> Sale {
        let mixed = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = |shift: u32, of: u64| (mixed >> shift) % of;
        let number = |shift, of| i32::try_from(part(shift, of)).unwrap_or_default();
        Sale {
            id,
            till: number(3, 12) + 1,
            receipt: i64::try_from(id / 5).unwrap_or_default(),
            line: i32::try_from(id % 5).unwrap_or_default() + 1,
            quantity: number(11, 9) + 1,
            price_cents: i64::from(number(17, 19_999)) + 1,
            sold_at: 1_200_000_000_000 + i64::from(number(23, 86_400_000)),
            article: format!(
                "{:013} article of the range {:016x}, sold by the piece, tax included",
                part(7, 9_999_999_999_999),
                mixed
            ),
        }
    }

    /// Returns the size of a record of the log, bytes.
    pub fn record_len() -> usize {
        Sale::new(0).record().len()
    }

    /// Encodes the line as a record of the log.
    pub fn record(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(FIXED + self.article.len());
        record.extend(self.id.to_le_bytes());
        record.extend(self.till.to_le_bytes());
        record.extend(self.receipt.to_le_bytes());
        record.extend(self.line.to_le_bytes());
        record.extend(self.quantity.to_le_bytes());
        record.extend(self.price_cents.to_le_bytes());
        record.extend(self.sold_at.to_le_bytes());
        record.extend(self.article.as_bytes());
        record
    }

    /// Decodes a record of the log; `None` if it is not exactly the record of a [`Sale`].
    pub fn of_record(record: &[u8]) -> Option<Sale> {
        let (mut rest, article) = record.split_at_checked(FIXED)?;
        let mut long = || {
            let (number, more) = rest.split_first_chunk::<8>()?;
            rest = more;
            Some(*number)
        };
        let id = u64::from_le_bytes(long()?);
        let sale = Sale::new(id);
        // The number determines the rest, so a comparison suffices.
        (sale.article.as_bytes() == article && sale.record() == record).then_some(sale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_any_change_is_seen() {
        for id in [0, 1, 499, 1 << 40] {
            let sale = Sale::new(id);
            let record = sale.record();
            assert!((100..200).contains(&record.len()), "{}", record.len());
            assert!(sale.article.len() <= 120);
            assert_eq!(record.len(), Sale::record_len());
            assert_eq!(Sale::of_record(&record), Some(sale));
            for at in 0..record.len() {
                let mut changed = record.clone();
                changed[at] ^= 1;
                let read = Sale::of_record(&changed);
                assert!(read.is_none_or(|s| s.id != id), "byte {at}");
            }
            assert_eq!(Sale::of_record(&record[..20]), None);
        }
        assert_ne!(Sale::new(1).article, Sale::new(2).article);
    }
}
